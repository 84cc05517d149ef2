"""The lab's stand-in of the database answers whatever a restore asks of a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.adapters.local.content import STANDINS
from tests.unit.modules.database_course import KEY, Course, DirectJob, prepare
from tests.unit.modules.fake_backend import Backend

from ansible.module_utils import appliance_backup_cluster  # isort: skip
from ansible.module_utils import appliance_backup_database as trials  # isort: skip

pytestmark = pytest.mark.slow

PROGRAM = STANDINS / "vendor_bundle_standin/images/pg_dump.py"
KUBECTL = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
PATH=%s:$PATH STORE_DIR=%s POSTGRES_PASSWORD=x exec "$@"
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the documents, as the stand-in's volume has it."""
    programs, folder = tmp_path / "bin", tmp_path / "data"
    programs.mkdir()
    folder.mkdir()
    for name in ("psql", "pg_dump", "pg_dumpall"):
        (programs / name).write_text(f"#!{sys.executable}\n{PROGRAM.read_text()}")
        (programs / name).chmod(0o755)
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL % (programs, folder))
    kubectl.chmod(0o755)
    prepare(monkeypatch, kubectl, tmp_path)
    (folder / "projects.json").write_text(json.dumps({"c1": [{"name": "a\\b\n\t\\."}]}))
    (folder / "clusters.json").write_text("{}")
    return folder


def dump(store: Path, name: str) -> bytes:
    words = [str(store.parent / "bin/pg_dump"), "-U", "postgres", name]
    environment = {**os.environ, "STORE_DIR": str(store), "PGPASSWORD": "x"}
    return subprocess.run(words, env=environment, check=True, capture_output=True).stdout


def served(store: Path) -> dict[str, str]:
    """The documents that the store serves now."""
    catalog = store / "catalog"
    place = json.loads(catalog.read_text())["backend"]["folder"] if catalog.exists() else "."
    return {path.stem: path.read_text() for path in (store / place).glob("*.json")}


def test_a_document_of_before_is_back_and_one_of_after_is_gone(store: Path) -> None:
    before = served(store)
    course = Course(Backend(), {"backend": dump(store, "backend")})
    (store / "after.json").write_text("{}")
    (store / "projects.json").unlink()
    assert course.look()["databases"]["backend"]["rows"] == {"backend.documents": 2}
    course.whole()
    assert served(store) == before
    again = Course(course.backend, course.dumps, f"{KEY}2")
    again.whole()
    assert served(store) == before
    names = [name for name in json.loads((store / "catalog").read_text()) if "before" in name]
    assert len(names) == 1, "a restore lets go of what an earlier one kept"


def test_a_dump_is_tried_and_compared_by_digests(store: Path) -> None:
    path = store.parent / "tried.sql"
    path.write_bytes(dump(store, "backend"))
    tables = appliance_backup_cluster.tables_of(path)
    rows = {table: number for table, (number, _) in tables.items()}
    digests = {table: digest for table, (_, digest) in tables.items()}
    server = trials.Server(store.parent, DirectJob())
    found = trials.trial(server, path, rows, digests, "backend")
    assert found == {"tables": 1, "rows": 2, "digests": True}
    path.write_bytes(path.read_bytes().replace(b"{}", b"[]"))
    with pytest.raises(trials.OtherContent, match="its digest is another"):
        trials.trial(server, path, rows, digests, "backend")
