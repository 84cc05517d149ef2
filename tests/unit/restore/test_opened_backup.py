"""The backup that a restore opens is the one that the file beside it describes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import IO

import pytest

from appliance.adapters.backup.opened import BackupFile
from appliance.errors import NotHealthy
from tests.unit.backup.samples import CONTENT, NAME, key, write


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path]:
    """A backup, and the key that opens it."""
    path, recipient = key(tmp_path)
    folder = tmp_path / "place"
    folder.mkdir()
    write(folder, recipient)
    return folder / f"{NAME}.backup", path


def test_the_snapshot_is_handed_over(made: tuple[Path, Path]) -> None:
    got = io.BytesIO()

    def take(stream: IO[bytes]) -> None:
        got.write(stream.read())

    opened = BackupFile(*made)
    opened.read("etcd/snapshot.db", take)
    assert got.getvalue() == CONTENT["etcd/snapshot.db"]
    assert len(opened.sha256) == 64


def test_a_file_beside_it_that_tells_of_another_site_is_refused(made: tuple[Path, Path]) -> None:
    beside = made[0].with_name(f"{NAME}.backup.json")
    document = json.loads(beside.read_text())
    beside.write_text(json.dumps({**document, "site": "rack8"}))
    with pytest.raises(NotHealthy, match="describes another backup than it holds"):
        BackupFile(*made)
