"""``appliance node logs`` and ``node ssh``: options, what is printed, and what ssh is given."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node
from tests import samples
from tests.site_cases import copy_of_good

Capture = pytest.CaptureFixture[str]
BAD = "\x1b]0;owned\x07"
ETCD = "{0}\tkube-system\tetcd-cp1\t{1}\tcontainer\tUp 2 hours\n"


class Nodes(SshNodes):
    """Each node prints one line, and what the script was."""

    def __init__(self) -> None:
        self.scripts: list[tuple[str, str]] = []
        self.says = f"one{BAD}\n"
        self.listed = ETCD.format("1" * 64, "etcd")

    def run_as_root(self, node: Node, script: str, **_: object) -> Answer:
        if node.name == "w2":
            raise NodeUnreachable("w2: no answer", hint="check w2")
        self.scripts.append((node.name, script))
        return Answer(0, self.listed if " ps " in script else self.says, "")

    def follow_as_root(
        self, node: Node, script: str, on_text: Callable[[str], None], *, seconds: float
    ) -> int:
        self.scripts.append((node.name, script))
        assert seconds > 3600
        on_text(f"two{BAD}\n")
        return 124


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Nodes:
    monkeypatch.delenv("APPLIANCE_SITE", raising=False)
    desired = samples.desired(replace(samples.site(), directory=tmp_path))
    found = Nodes()

    def connect(*_: object, **__: object) -> SiteSession:
        return SiteSession(desired.site, desired, found, found, None)  # type: ignore[arg-type]

    monkeypatch.setattr(Application, "connect", connect)
    return found


@pytest.fixture
def logs(nodes: Nodes, tmp_path: Path) -> Callable[..., int]:
    assert nodes.scripts == []
    return lambda *words: run(["node", "logs", *words, "--site", str(tmp_path)])


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ((), "--unit=kubelet --lines=200"),
        (("--runtime",), "--unit=docker --unit=containerd"),
        (("--kernel", "--since", "2h"), "--dmesg --lines=200 --since=-7200s"),
        (("--unit", "chrony.service", "--lines", "5"), "--unit=chrony.service --lines=5"),
        (("--kubelet", "--follow"), "--lines=200 --follow"),
    ],
)
def test_each_source_is_read_and_what_a_node_says_steers_no_terminal(
    logs: Callable[..., int], nodes: Nodes, words: tuple[str, ...], script: str, capsys: Capture
) -> None:
    assert logs("w1", *words) == 0
    (asked,) = nodes.scripts
    assert asked[0] == "w1"
    assert script in asked[1]
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\\x1b]0;owned\\x07\n" in shown


def test_a_pods_containers_are_printed_one_after_the_other(
    logs: Callable[..., int], nodes: Nodes, capsys: Capture
) -> None:
    nodes.listed += ETCD.format("2" * 64, "sidecar")
    assert logs("cp1", "--pod", "kube-system/etcd") == 0
    shown = capsys.readouterr()
    assert shown.out.count("one") == 2
    assert "==> kube-system/etcd-cp1 sidecar: Up 2 hours" in shown.out
    assert logs("cp1", "--pod", "kube-system/etcd", "--follow") == 2
    assert "--follow needs --container with one of etcd, sidecar" in capsys.readouterr().err
    assert logs("cp1", "--pod", "kube-system/etcd", "--follow", "--container", "etcd") == 0
    assert nodes.scripts[-1][1].endswith(f"--follow {'1' * 64} 2>&1")


def test_a_pod_that_runs_elsewhere_is_refused_with_the_next_step(
    logs: Callable[..., int], capsys: Capture
) -> None:
    assert logs("cp1", "--pod", "kube-system/etcd-cp2") == 3
    shown = capsys.readouterr().err
    assert "cp1 has no container of a pod kube-system/etcd-cp2" in shown
    assert "hint:" in shown


def test_a_node_that_does_not_answer_and_an_empty_log_are_told_apart(
    logs: Callable[..., int], nodes: Nodes, capsys: Capture
) -> None:
    assert logs("w2") == 4
    assert "hint: check w2" in capsys.readouterr().err
    nodes.says = ""
    assert logs("w1") == 0
    assert "w1: no entries in this log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpu9",), "the site has no such node"),
        (("w1", "--kernel", "--runtime"), "--runtime and --kernel exclude each other"),
        (("w1", "--container", "x"), "--container needs --pod"),
        (("w1", "--since", "yesterday"), "is no duration"),
        (("w1", "--pod", "etcd"), "is no NAMESPACE/NAME"),
        (("w1", "--unit", "a b"), "is no name of a systemd unit"),
        (("w1", "--lines", "0"), "1<=x<=10000"),
    ],
)
def test_what_was_typed_wrong_is_said_before_anything_is_asked(
    logs: Callable[..., int], nodes: Nodes, words: tuple[str, ...], said: str, capsys: Capture
) -> None:
    assert logs(*words) == 2
    assert said in capsys.readouterr().err
    assert nodes.scripts == []


SSH = f"""#!{sys.executable}
import json, sys
print(json.dumps(sys.argv[1:]))
sys.exit(7)
"""


def ssh(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with an ``ssh`` that prints its arguments."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "ssh").write_text(SSH)
    (programs / "ssh").chmod(0o755)
    return subprocess.run(
        [sys.executable, "-m", "appliance", "node", "ssh", "--site", str(folder / "rack7"), *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
    )


def test_ssh_gets_the_sites_way_and_its_exit_code_is_the_commands(tmp_path: Path) -> None:
    site = copy_of_good(tmp_path / "rack7")
    refused = ssh(tmp_path, "master1")
    assert refused.returncode == 4
    assert "its host key is not in" in refused.stderr
    node = next(one for one in Application().site(site).nodes if one.name == "master1")
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0H6zQ0yQq7Q2fV0m3Jv0c0b6XoWl1c9m1k5bC1t4fE"
    (site / "known_hosts").write_text(f"{node.ip} {key}\n")
    done = ssh(tmp_path, "master1", "--", "ls", "a b")
    assert done.returncode == 7, done.stderr
    words = json.loads(done.stdout)
    assert words[-1] == "ls 'a b'"
    assert words[-2].endswith(f"@{node.ip}")
    assert "StrictHostKeyChecking=yes" in words
    assert f"UserKnownHostsFile={site / 'known_hosts'}" in words
    assert "ClearAllForwardings=yes" in words
    assert json.loads(ssh(tmp_path, "master1", "--", "a | b").stdout)[-1] == "a | b"
    assert json.loads(ssh(tmp_path, "master1").stdout)[-1] == words[-2]
    assert "did you mean 'master1'?" in ssh(tmp_path, "mastr1").stderr


@pytest.mark.parametrize("to_file", [True, False], ids=["a file", "a terminal"])
def test_what_goes_to_a_file_comes_through_no_terminal_of_the_node(
    tmp_path: Path, to_file: bool
) -> None:
    ssh(tmp_path, "master1")  # its programs
    site = copy_of_good(tmp_path / "rack7")
    node = next(one for one in Application().site(site).nodes if one.name == "master1")
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0H6zQ0yQq7Q2fV0m3Jv0c0b6XoWl1c9m1k5bC1t4fE"
    (site / "known_hosts").write_text(f"{node.ip} {key}\n")
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "appliance", "node", "ssh", "--site", str(site), "master1",
             "--", "cat", "x"],
            stdin=theirs,
            stdout=subprocess.PIPE if to_file else theirs,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
            env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        )  # fmt: skip
        said = done.stdout if to_file else os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 7, done.stderr
    assert ("-t" in json.loads(said)) is not to_file


class Unread(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "none")


def test_a_log_that_nobody_reads_any_more_is_not_followed_on(
    logs: Callable[..., int], nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pieces(_node: Node, _script: str, on_text: Callable[[str], None], **_: object) -> int:
        on_text("one\n")
        raise AssertionError("the log was followed on")

    monkeypatch.setattr(nodes, "follow_as_root", pieces)
    monkeypatch.setattr(sys, "stdout", Unread())
    assert logs("w1", "--follow") == 0
