"""A bundle arrives as root's, whether sudo asks for a password or not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import require
from tests.unit.modules.loading import load
from tests.unit.modules.sudo_that_asks import PASSWORD, programs

rsync_push = load("rsync_push")

# What ssh does with the words after the login: the node's shell runs them.
SSH = """#!/bin/sh
while [ "$1" != node ]; do shift; done
shift
printf '%s\n' "$*" >>"$SAID"
exec sh -c "$*"
"""


def push(folder: Path, *, asks: bool, password: str, before: str = ":") -> Any:
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
    return subprocess.run(
        rsync_push.command(want, reader),
        pass_fds=[reader] if reader is not None else [],
        env={
            "PATH": f"{programs(path, asks=asks)}:{os.environ['PATH']}",
            "SAID": str(folder / "said"),
        },
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


def test_a_wrong_password_is_said_soon(tmp_path: Path) -> None:
    done = push(tmp_path, asks=True, password="wrong")  # noqa: S106
    assert done.returncode != 0
    assert "sudo:" in done.stderr
    assert not (tmp_path / "target").exists()


def test_a_command_before_it_that_fails_ends_it_soon(tmp_path: Path) -> None:
    done = push(tmp_path, asks=True, password=PASSWORD, before="false")
    assert done.returncode != 0
    assert not (tmp_path / "target").exists()
