"""The journal: immutable records are the truth, the index is only an index."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
import uuid
from contextlib import closing
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


NO_RECORDS = ("", '{"run": "run-z", "seq', "[]", "3", '{"run": "run-z"}', "\x00" * 64)


@pytest.mark.parametrize("text", NO_RECORDS)
def test_a_record_that_is_not_readable_holds_up_no_command(tmp_path: Path, text: str) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    (tmp_path / "run-b-001.json").write_text(text)
    (tmp_path / "run-c-003.json").write_text(json.dumps(_record("run-c", 3).as_json()))
    assert journal.durations() == {"host": 7.5}
    journal.append(_record("run-d", 4))
    assert journal.durations() == {"host": 10.0}
    with pytest.raises(NotHealthy, match=r"run-b-001\.json") as named:
        journal.read()
    assert named.value.hint
    (tmp_path / "run-b-001.json").unlink()
    assert [record.run for record in journal.read()] == ["run-a", "run-c", "run-d"]


def test_a_record_that_may_not_be_read_holds_up_no_command(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    (tmp_path / "run-b-001.json").mkdir()
    assert journal.durations() == {"host": 2.5}
    with pytest.raises(NotHealthy, match=r"run-b-001\.json"):
        journal.read()


def test_a_record_has_its_name_only_once_it_is_whole_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, seen = os.fsync, []

    def fsync(descriptor: int) -> None:
        seen.append(sorted(path.name for path in tmp_path.glob("run-*")))
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    FileJournal(tmp_path).append(_record("run-a", 1))
    assert seen == [[], ["run-a-001.json"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.sqlite", "run-a-001.json"]


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
def test_a_record_that_could_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def fsync(_descriptor: int) -> None:
        raise fault

    journal = FileJournal(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)
        with pytest.raises(type(fault)):
            journal.append(_record("run-a", 1))
    assert list(tmp_path.glob("*")) == []
    assert list(tmp_path.glob(".*")) == []
    journal.append(_record("run-a", 1))
    assert journal.read() == [_record("run-a", 1)]


def test_a_file_system_without_links_keeps_records_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(_source: Path, _target: Path) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    test_a_record_is_never_written_twice(tmp_path)
    assert list(tmp_path.glob(".*")) == []


def _spoil(index: Path, *, keep: int) -> None:
    """Damage all of an index but its first bytes."""
    content = index.read_bytes()
    assert len(content) > 2 * keep
    index.write_bytes(content[:keep] + b"\xa5" * (len(content) - keep))


@pytest.mark.parametrize("keep", [16, 100, 4096, 8192])
def test_an_index_that_is_damaged_behind_its_header_is_made_anew(tmp_path: Path, keep: int) -> None:
    journal = FileJournal(tmp_path)
    records = [_record(f"run-{number:03d}", 1) for number in range(80)]
    for record in records:
        (tmp_path / f"{record.run}-001.json").write_text(json.dumps(record.as_json()))
    assert journal.read() == records
    index = tmp_path / "index.sqlite"
    _spoil(index, keep=keep)
    assert journal.read() == records
    assert journal.read(limit=2) == records[-2:]
    _spoil(index, keep=keep)
    assert journal.durations() == {"host": 2.5}
    _spoil(index, keep=keep)
    last = _record("run-b", 1)
    journal.append(last)
    assert journal.read() == [*records, last]
    with closing(sqlite3.connect(index)) as found:
        assert found.execute("pragma integrity_check").fetchone() == ("ok",)


def test_what_a_dead_process_left_of_a_broken_index_spoils_no_new_one(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    (tmp_path / "index.sqlite").write_bytes(b"not a database at all" * 100)
    (tmp_path / "index.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9 \xa1c\xd7" * 200)
    assert [record.run for record in journal.read()] == ["run-a"]
    assert not (tmp_path / "index.sqlite-journal").exists()


def test_an_index_that_another_process_has_is_left_to_it(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    index = tmp_path / "index.sqlite"
    before = index.stat().st_ino
    with closing(sqlite3.connect(index, isolation_level=None)) as other:
        other.execute("begin exclusive")
        journal.append(_record("run-b", 1))
        assert [record.run for record in journal.read()] == ["run-a", "run-b"]
        assert index.stat().st_ino == before
        other.execute("rollback")
    assert [record.run for record in journal.read()] == ["run-a", "run-b"]
    assert index.stat().st_ino == before


def test_where_no_index_can_be_written_the_records_are_read(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record("run-a", 1))
    (tmp_path / "index.sqlite").unlink()
    (tmp_path / "index.sqlite").mkdir()
    assert [record.run for record in journal.read()] == ["run-a"]
