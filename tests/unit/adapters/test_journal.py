"""The journal: immutable records are the truth, the index is only an index."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest

from appliance.adapters.journal import FileJournal, new_run_id
from appliance.errors import NotHealthy
from appliance.model.journal import Outcome, Record


def _record(run: str, sequence: int, step: str = "host", outcome: Outcome = "proven") -> Record:
    return Record(
        run=run,
        sequence=sequence,
        command="install",
        step=step,
        nodes=("cp1", "w1"),
        why=("cp1: swap is on",),
        started="2026-01-01T00:00:00+00:00",
        took_seconds=2.5 * sequence,
        outcome=outcome,
        operator="ada",
        tool_version="1",
        before={"cp1": "aa"},
        after={"cp1": "bb"},
    )


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "journal")
    records = [_record("run-a", 1), _record("run-a", 2), _record("run-b", 1)]
    for record in records:
        journal.append(record)
    assert journal.read() == records
    assert journal.read(limit=2) == records[1:]


def test_a_record_is_never_written_twice(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    with pytest.raises(FileExistsError):
        journal.append(_record("run-a", 1, step="other"))
    assert journal.read()[0].step == "host"


@pytest.mark.parametrize("harm", ["missing", "broken"])
def test_the_index_is_made_anew_from_the_records(tmp_path: Path, harm: str) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    if harm == "missing":
        (tmp_path / "index.sqlite").unlink()
    else:
        (tmp_path / "index.sqlite").write_bytes(b"not a database at all" * 100)
    assert [record.run for record in journal.read()] == ["run-a"]


def test_records_of_another_laptop_are_found(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-b", 1))
    other = _record("run-a", 1)
    (tmp_path / "run-a-001.json").write_text(json.dumps(other.as_json()))
    assert [record.run for record in journal.read()] == ["run-a", "run-b"]


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    (tmp_path / "run-z-001.json").write_text("{")
    with pytest.raises(NotHealthy, match=r"run-z-001\.json") as caught:
        journal.read()
    assert caught.value.hint


def test_durations_are_of_the_last_proven_run(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    journal.append(_record("run-b", 3))
    journal.append(_record("run-c", 9, outcome="failed"))
    assert journal.durations() == {"host": 7.5}


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "journal")
    journal.append(_record("run-a", 1))
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "journal").iterdir()}
    assert modes == {0o600}
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700


def test_an_empty_site_has_an_empty_history(tmp_path: Path) -> None:
    assert FileJournal(tmp_path / "none").read() == []


def test_run_ids_are_uuid7_and_sort_by_time() -> None:
    first = new_run_id()
    time.sleep(0.002)
    second = new_run_id()
    assert first < second
    assert uuid.UUID(first).version == 7
    assert abs((uuid.UUID(first).int >> 80) / 1000 - time.time()) < 5
