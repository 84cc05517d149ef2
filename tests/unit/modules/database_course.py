"""The acts of a restore of databases, called on this machine as the control host calls them."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.fake_backend import Backend
from tests.unit.modules.loading import load, load_utils

load("runai_saved_state", role="runai_upgrade")
load("runai_cluster_connection", role="runai_cluster")
load_utils("appliance_restore_course")
from ansible.module_utils import (  # noqa: E402
    appliance_backup_cluster,
    appliance_backup_database,
    appliance_backup_folder,
    appliance_restore_course,
    runai_dump,
)

KEY = "rack7-20260301T020000Z.20260302T101010Z"
VERSIONS = {"runai-backend": {"version": "2.7.14", "status": "deployed"}}


def prepare(patch: pytest.MonkeyPatch, kubectl: Path, folder: Path) -> None:
    """Let the acts use this program for kubectl, and folders of a test."""
    patch.setattr(appliance_backup_database, "PROGRAM", str(kubectl))
    patch.setattr(appliance_restore_course, "PROGRAM", str(kubectl))
    patch.setattr(appliance_restore_course, "HOME", folder / "runai")
    patch.setattr(appliance_backup_folder, "PLACE", folder / "backup")
    patch.setattr(appliance_backup_cluster, "versions", lambda: VERSIONS)
    patch.setattr(runai_dump, "RESERVE", 0)
    patch.setattr(appliance_restore_course.appliance_backup_trial, "RESERVE", 0)


class DirectJob:
    """Runs commands at once, and answers as a unit of the node does."""

    def run(self, argv: list[str], *_: Any) -> tuple[dict[str, Any], bool]:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        found = {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        return {"job": "test", **found}, False


class DyingJob(DirectJob):
    """Ends the process before its nth command."""

    def __init__(self, at: int) -> None:
        self.left = at

    def count(self) -> None:
        """Nothing is done any more once the process was ended."""
        self.left -= 1
        if self.left <= 0:
            raise Killed

    def run(self, argv: list[str], *rest: Any) -> tuple[dict[str, Any], bool]:
        self.count()
        return super().run(argv, *rest)


class Killed(BaseException):
    """Stands for the end of a process that nothing handles."""


class Course:
    """The acts of a restore on this machine, each as a call of its own."""

    def __init__(self, backend: Backend, dumps: dict[str, bytes], key: str = KEY) -> None:
        self.backend, self.dumps, self.key = backend, dumps, key
        self.counts = {name: _rows(dump) for name, dump in dumps.items()}
        self.job: Any = DirectJob()

    def act(self, act: str, names: Any = None, stream: bytes = b"", **more: Any) -> dict[str, Any]:
        base = {"act": act, "key": self.key, "backup": "rack7", "file_sha256": "0" * 64}
        want = {**base, "names": list(names or self.dumps), "sha256": {}, **more}
        found: dict[str, Any] = appliance_restore_course.act_of(
            want, self.backend, self.job, io.BytesIO(stream)
        )
        return json.loads(json.dumps(found))  # type: ignore[no-any-return]

    def look(self) -> dict[str, Any]:
        return self.act("look", sha256={n: _sum(d) for n, d in self.dumps.items()})

    def load(self, name: str, dump: bytes | None = None, **more: Any) -> dict[str, Any]:
        content = self.dumps[name] if dump is None else dump
        rows = json.dumps(self.counts[name]).encode()
        told = {"size": len(content), "sha256": _sum(content), "rows_bytes": len(rows)}
        given = {**told, "same_form": False, **more}
        return self.act("load", [name], rows + content, **given)

    def whole(self, look: Any = None) -> None:
        """As the workflow goes on by what it sees."""
        seen = (look or self.look())["databases"]
        self.act("save")
        for name in self.dumps:
            if not (seen[name]["whole"] or seen[name]["swapped"]):
                self.load(name)
        self.act("swap", confirms=True)
        self.act("end")


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _rows(dump: bytes) -> dict[str, int]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(dump)
        file.flush()
        found = appliance_backup_cluster.tables_of(file.name)
    return {table: rows for table, (rows, _) in found.items()}
