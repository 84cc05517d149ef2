"""The probe as it is shipped: one file, any Python from 3.8, this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import appliance.probe
from appliance.adapters.ssh.probing.archive import probe_archive
from appliance.model.state.facts.facts import NodeFacts
from tests.unit.probe import recorded

SOURCES = Path(appliance.probe.__file__).parent


def _python_3_8() -> str | None:
    """A real Python 3.8, or None: a shim that only says where one would be does not count."""
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python3.8"))
    for candidate in (shutil.which("python3.8"), *map(str, pyenv)):
        if candidate and not subprocess.run([candidate, "-c", ""], check=False).returncode:
            return candidate
    return None


def _pythons() -> list[Any]:
    """This Python, and a real 3.8 where there is one."""
    old = _python_3_8()
    missing = pytest.mark.skipif(old is None, reason="no Python 3.8 here")
    return [
        pytest.param(sys.executable, id="this"),
        pytest.param(str(old), id="3.8", marks=missing),
    ]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "probe.pyz"
    path.write_bytes(probe_archive())
    return path


def _run(python: str, archive: Path, *arguments: str, **options: Any) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(archive), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("python", _pythons())
def test_a_recorded_machine_reads_the_same_with_every_python(
    python: str, archive: Path, tmp_path: Path
) -> None:
    root, outputs = recorded.machine({"machine": "docker-debian-12"}, tmp_path / "m")
    found = _run(python, archive, "--root", str(root), "--outputs", str(outputs))
    wanted = json.loads(json.dumps(recorded.look(root, outputs)))
    assert {**found, "took_seconds": 0} == {**wanted, "took_seconds": 0}


# Null where the machine has none, or where nobody asked for it.
NOT_ASKED = {"hypervisor", "storage"}


@pytest.mark.parametrize("python", _pythons())
def test_this_machine_is_read_whole(python: str, archive: Path) -> None:
    found = _run(python, archive, "--facts", "/nonexistent", "--resolve", "localhost")
    facts = NodeFacts(found)
    assert facts.hostname
    assert found["cpu"]["threads"] >= 1
    assert found["filesystems"]
    assert found["standin"] == []
    assert found["resolver"]["resolves"]["localhost"] == ["127.0.0.1"]
    complaints = {entry["section"] for entry in found["unreadable"]}
    empty = {name for name, value in found.items() if value is None and name not in NOT_ASKED}
    assert empty <= complaints


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_without_rights_it_works_and_says_what_it_could_not_read() -> None:
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip("no Python that everybody may run")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        archive = folder / "probe.pyz"
        archive.write_bytes(probe_archive())
        found = _run(python, archive, cwd="/", user=65534, group=65534, extra_groups=[])
    complaints = {(entry["section"], entry["reason"]) for entry in found["unreadable"]}
    assert ("listening", "processes of listening sockets: needs root") in complaints
    assert found["host"]["hostname"]


def test_the_same_sources_give_the_same_bytes() -> None:
    first = probe_archive()
    probe_archive.cache_clear()
    assert probe_archive() == first


def test_the_archive_holds_the_package_and_nothing_else() -> None:
    names = zipfile.ZipFile(BytesIO(probe_archive())).namelist()
    expected = {f"appliance_probe/{path.relative_to(SOURCES)}" for path in SOURCES.rglob("*.py")}
    assert set(names) == {"__main__.py", *expected}
