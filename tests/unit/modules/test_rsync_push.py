"""A bundle arrives as root's, whether sudo asks for a password or not."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import require
from tests.unit.modules.loading import load
from tests.unit.modules.sudo_that_asks import PASSWORD, programs

rsync_push = load("rsync_push")
programs_of_modules = importlib.import_module("ansible.module_utils.appliance_programs")

# What ssh does with the words after the login: the node's shell runs them.
SSH = """#!/bin/sh
while [ "$1" != node ]; do shift; done
shift
printf '%s\n' "$*" >>"$SAID"
exec sh -c "$*"
"""


def words_of(
    folder: Path, *, asks: bool, password: str, before: str = ":"
) -> tuple[list[str], list[int], dict[str, str]]:
    """The command, the descriptors that it reads, and its environment."""
    require("rsync")
    path = folder / "path"
    path.mkdir()
    (path / "ssh").write_text(SSH)
    (path / "ssh").chmod(0o755)
    (folder / "source").mkdir()
    (folder / "source" / "big").write_bytes(bytes(range(256)) * 20_000)
    want = {
        "source": f"{folder}/source/",
        "target": f"{folder}/target/",
        "login": "node",
        "ssh": "ssh -o 'ProxyCommand=x y'",
        "options": ["--recursive", "--timeout=20"],
        "before": before,
        "become": True,
        "become_password": password,
    }
    reader = rsync_push.password_pipe(want)
    environment = {
        "PATH": f"{programs(path, asks=asks)}:{os.environ['PATH']}",
        "SAID": str(folder / "said"),
    }
    return rsync_push.command(want, reader), [reader] if reader is not None else [], environment


def push(folder: Path, *, asks: bool, password: str, before: str = ":") -> Any:
    words, descriptors, environment = words_of(folder, asks=asks, password=password, before=before)
    return subprocess.run(
        words,
        pass_fds=descriptors,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("asks", "password"), [(False, ""), (False, PASSWORD), (True, PASSWORD)], ids=repr
)
def test_files_arrive_as_root(tmp_path: Path, asks: bool, password: str) -> None:
    before = f'echo "$AS_ROOT" >{tmp_path}/root'
    done = push(tmp_path, asks=asks, password=password, before=before)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "target" / "big").read_bytes() == bytes(range(256)) * 20_000
    assert (tmp_path / "root").read_text() == "1\n"
    assert "canary" not in (tmp_path / "said").read_text() + done.stdout + done.stderr


@pytest.fixture
def three_is_free() -> Iterator[None]:
    """Descriptor 3 is the next that is given away, as in a process that has only begun."""
    kept = None
    with contextlib.suppress(OSError):
        kept = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, 100)
        os.close(3)
    yield
    with contextlib.suppress(OSError):
        os.close(3)
    if kept is not None:
        os.dup2(kept, 3, inheritable=False)
        os.close(kept)


@pytest.mark.usefixtures("three_is_free")
def test_the_password_arrives_where_its_descriptor_would_be_one_that_the_shell_takes(
    tmp_path: Path,
) -> None:
    done = push(tmp_path, asks=True, password=PASSWORD)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "target" / "big").is_file()


def test_a_wrong_password_is_said_soon(tmp_path: Path) -> None:
    done = push(tmp_path, asks=True, password="wrong")  # noqa: S106
    assert done.returncode != 0
    assert "sudo:" in done.stderr
    assert not (tmp_path / "target").exists()


def test_a_command_before_it_that_fails_ends_it_soon(tmp_path: Path) -> None:
    done = push(tmp_path, asks=True, password=PASSWORD, before="false")
    assert done.returncode != 0
    assert not (tmp_path / "target").exists()


def test_one_that_is_late_is_ended_with_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, descriptors, environment = words_of(tmp_path, asks=False, password="")
    (tmp_path / "path/ssh").write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 300\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(subprocess.TimeoutExpired):
        rsync_push.carry_out(words, descriptors, 1)
    command_line = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    deadline = time.monotonic() + 10
    # One that has ended and was not waited for has none.
    while command_line.exists() and command_line.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_node_that_writes_without_end_is_read_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs_of_modules, "LONGEST_OUTPUT", 1000)
    before = "yes | head -c 300000 >&2"
    words, descriptors, environment = words_of(tmp_path, asks=False, password="", before=before)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, _, complained = rsync_push.carry_out(words, descriptors, 30)
    assert (code, len(complained)) == (0, 1000)


def test_only_the_listed_files_are_sent(tmp_path: Path) -> None:
    require("rsync")
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("bin/a b", "bin/c", "images/d"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    names = tmp_path / "list"
    names.write_bytes(b"bin/a b\0images/d\0")
    words = ["rsync", "--recursive", "--from0", f"--files-from={names}", f"{source}/", f"{target}/"]
    subprocess.run(words, check=True)
    sent = {str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()}
    assert sent == {"bin/a b", "images/d"}


def test_a_listed_file_that_is_not_there_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("x")
    (tmp_path / "link").symlink_to("/etc/shadow")
    names = ["here", "link", *(f"gone{number}" for number in range(6))]
    want = {"source": str(tmp_path), "files": names, "lacking_hint": "bring the whole bundle"}
    assert rsync_push.refusal(want) == (
        f"7 of 8 files are not in {tmp_path}: link, gone0, gone1, gone2, gone3 and 2 more; "
        "bring the whole bundle"
    )
    assert rsync_push.refusal({**want, "files": ["here"]}) is None
