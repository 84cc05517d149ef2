"""A host that says too much in a play is unreachable; the others go on, and memory stays small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.contract import tree

PLAY = """
- name: Two hosts
  hosts: all
  gather_facts: false
  tasks:
    - name: Ask it
      ansible.builtin.command:
        argv: ["{{ ansible_playbook_python }}", -c, "print('x' * 3000000)"]
      register: said
    - name: Send it a file
      ansible.builtin.copy:
        content: "{{ said.stdout | length }} of {{ inventory_hostname }}"
        dest: "{{ place }}/{{ inventory_hostname }}"
        mode: "0600"
"""
# What a host does that runs the command, as sshd would: its last word.
WELL = '#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n'
# As ssh, each takes the module: what is not taken is a silent host, which `task_timeout` ends.
TAKES = "#!/bin/sh\nexec 3<&0\ncat <&3 > /dev/null &\n"
FLOODS = {
    "at once": f"{TAKES}exec yes\n",
    "after the module": "#!/bin/sh\ncat > /dev/null\nexec yes\n",
    "as errors": f"{TAKES}exec yes >&2\n",
    "without a line's end": f"{TAKES}exec tr '\\0' x < /dev/zero\n",
    "9 MB and a good end": "#!/bin/sh\ncat > /dev/null\nhead -c 9000000 /dev/zero\n",
}
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], check=False).returncode
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
sys.exit(code)
"""


def _play(
    tmp_path: Path, hosts: dict[str, str], **everyone: object
) -> tuple[subprocess.CompletedProcess[str], int]:
    """A play against hosts whose ``ssh`` is such a program; its peak of memory in MiB."""
    variables: dict[str, Any] = {}
    for name, program in hosts.items():
        path = tmp_path / f"ssh-{name}"
        path.write_text(program)
        path.chmod(0o755)
        variables[name] = {"ansible_ssh_executable": str(path)}
    (tmp_path / "to").mkdir()
    shared = {
        "ansible_host": "127.0.0.1",
        "ansible_python_interpreter": sys.executable,
        "ansible_remote_tmp": str(tmp_path / "tmp"),
        "ansible_ssh_transfer_method": "piped",
        "place": str(tmp_path / "to"),
        **everyone,
    }
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": variables, "vars": shared}}))
    (tmp_path / "play.yml").write_text(PLAY)
    own = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    ansible = Path(sys.executable).with_name("ansible-playbook")
    play: list[str | Path] = [ansible, "-i", tmp_path / "hosts.yml", tmp_path / "play.yml"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, play)],
        cwd=tmp_path,
        env={
            **own,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_CONFIG": str(tree.ROOT / "playbooks" / "ansible.cfg"),
            "ANSIBLE_HOME": str(tmp_path / "ansible"),
        },
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "peak " in done.stdout, done.stdout + done.stderr
    return done, int(done.stdout.rsplit("peak ", 1)[1])


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The memory of a play in which nobody says too much."""
    done, peak = _play(tmp_path_factory.mktemp("usual"), {"well": WELL})
    assert done.returncode == 0, done.stdout + done.stderr
    return peak


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_host_that_talks_without_end_is_unreachable(
    flood: str, tmp_path: Path, usual: int
) -> None:
    began = time.monotonic()
    done, peak = _play(tmp_path, {"floods": flood, "well": WELL})
    told = done.stdout + done.stderr
    assert done.returncode == 4, told
    assert "more than 8 MiB" in told
    assert len(told) < 10_000
    # 3 MB are no flood.
    assert (tmp_path / "to" / "well").read_text() == "3000000 of well"
    assert not (tmp_path / "to" / "floods").exists()
    assert peak < usual + 64
    assert time.monotonic() - began < 60
    assert _left_running(tmp_path) == []


def test_a_transfer_is_capped_too(tmp_path: Path) -> None:
    sftp = tmp_path / "sftp"
    sftp.write_text(FLOODS["at once"])
    sftp.chmod(0o755)
    done, _ = _play(
        tmp_path, {"well": WELL},
        ansible_ssh_transfer_method="sftp", ansible_sftp_executable=str(sftp),
    )  # fmt: skip
    assert done.returncode == 4, done.stdout + done.stderr
    assert "more than 8 MiB" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n", "Permission denied"),
        ("#!/bin/sh\ncat > /dev/null\necho broken >&2\nexit 3\n", "broken"),
        # It refuses what is sent to it a while before it says why: Ansible waits for 1 ms.
        ("#!/bin/sh\nexec 0<&-\nsleep 1\necho late >&2\nexit 255\n", "late"),
    ],
)
def test_what_ssh_says_of_a_failure_is_still_told(program: str, words: str, tmp_path: Path) -> None:
    done, _ = _play(tmp_path, {"w1": program})
    assert done.returncode != 0
    assert words in done.stdout + done.stderr


def test_ssh_that_takes_no_input_and_keeps_running_is_ended(tmp_path: Path) -> None:
    done, _ = _play(tmp_path, {"w1": "#!/bin/sh\nexec 0<&-\nexec sleep 300\n"})
    assert done.returncode == 4, done.stdout + done.stderr
    assert "Data could not be sent" in done.stdout + done.stderr
    assert _left_running(tmp_path) == []


def test_every_option_of_ansibles_own_ssh_is_kept(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("ansible-doc")
    own = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    own |= {"LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(tmp_path)}
    config = {"ANSIBLE_CONFIG": str(tree.ROOT / "playbooks" / "ansible.cfg")}
    found = []
    for name, more in (("ansible.builtin.ssh", {}), ("capped_ssh", config)):
        done = subprocess.run(
            [program, "-j", "-t", "connection", name],
            env=own | more, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        (plugin,) = json.loads(done.stdout).values()
        options = plugin["doc"]["options"]
        found.append({one: _without_origin(how) for one, how in options.items()})
    assert len(found[0]) > 20
    assert found[0] == found[1]
    assert "playbooks/connection_plugins/capped_ssh.py" in plugin["doc"]["filename"]


def _without_origin(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_origin(v) for k, v in value.items() if k != "version_added_collection"}
    return [_without_origin(item) for item in value] if isinstance(value, list) else value


def _left_running(folder: Path) -> list[str]:
    """The commands that were started in a folder and still run."""
    found = []
    for pid, line in processes.command_lines().items():
        with suppress(OSError):
            if (processes.PROC / str(pid) / "cwd").readlink() == folder:
                found.append(line)
    return found
