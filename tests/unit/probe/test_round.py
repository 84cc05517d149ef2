"""The command that starts the probe on a node: by a real shell, with a sudo of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.adapters.ssh.become import Become
from appliance.adapters.ssh.probing.archive import probe_archive, probe_script
from tests import samples

LETS = 'shift; echo ran >>"$0.log"; exec "$@"'
REFUSES = 'echo "sudo: a password is required" >&2; exit 1'
# It starts what it is told, which reads its input and fails.
BREAKS = """[ "$4" = : ] || { cat >/dev/null; echo 'no memory' >&2; exit 137; }"""


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def _look(folder: Path, sudo: str, *, user: int = 1000) -> subprocess.CompletedProcess[bytes]:
    _program(folder / "id", f"echo {user}")
    _program(folder / "sudo", sudo)
    arguments = ("--outputs", "/nonexistent", "--root", str(folder))
    way = Become(samples.site(), lambda _name: None)
    script = way.command(probe_script(sys.executable, arguments), or_self=True)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", script],
        input=probe_archive(),
        env=environment,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("sudo", [LETS, REFUSES], ids=["sudo lets", "sudo refuses"])
def test_one_document_comes_whether_sudo_lets_or_not(tmp_path: Path, sudo: str) -> None:
    done = _look(tmp_path, sudo)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == 1
    assert (tmp_path / "sudo.log").exists() == (sudo == LETS)


def test_root_needs_no_sudo(tmp_path: Path) -> None:
    done = _look(tmp_path, LETS, user=0)
    assert json.loads(done.stdout)["schema"] == 1
    assert not (tmp_path / "sudo.log").exists()


def test_a_probe_that_fails_is_not_tried_again_without_rights(tmp_path: Path) -> None:
    done = _look(tmp_path, BREAKS)
    assert (done.returncode, done.stdout, done.stderr) == (137, b"", b"no memory\n")


def test_the_look_writes_nothing_to_the_node(tmp_path: Path) -> None:
    before = {"id", "sudo"}
    assert _look(tmp_path, REFUSES).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == before
