"""The journal: immutable records, read strictly, whoever wrote them."""

from __future__ import annotations

import errno
import json
import os
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.control_plane.journal import FileJournal, new_run_id
from appliance.model.state.journal import Outcome, Record
from tests.fakes import RUN_A, RUN_B, RUN_C, RUN_D, RUN_Z


def _record(run: str, sequence: int, step: str = "host", outcome: Outcome = "verified") -> Record:
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
    records = [_record(RUN_A, 1), _record(RUN_A, 2), _record(RUN_B, 1)]
    for record in records:
        journal.append(record)
    assert journal.read() == records
    assert journal.read(limit=2) == records[1:]


def test_a_record_is_never_written_twice(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record(RUN_A, 1))
    with pytest.raises(FileExistsError):
        journal.append(_record(RUN_A, 1, step="other"))
    assert journal.read()[0].step == "host"


def test_records_of_another_laptop_are_found(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record(RUN_B, 1))
    other = _record(RUN_A, 1)
    (tmp_path / f"{RUN_A}-001.json").write_text(json.dumps(other.as_json()))
    assert [record.run for record in journal.read()] == [RUN_A, RUN_B]


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record(RUN_A, 1))
    (tmp_path / f"{RUN_Z}-001.json").write_text("{")
    assert journal.read() == [_record(RUN_A, 1)]
    assert f"{RUN_Z}-001.json is not readable: it is not JSON" in "".join(journal.skipped())


def test_durations_are_of_the_last_verified_run(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record(RUN_A, 1))
    journal.append(_record(RUN_B, 3))
    journal.append(_record(RUN_C, 9, outcome="failed"))
    assert journal.durations() == {"host": 7.5}


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".appliance" / "journal"
    FileJournal(folder).append(_record(RUN_A, 1))
    modes = {path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}


def test_an_empty_site_has_an_empty_history(tmp_path: Path) -> None:
    assert FileJournal(tmp_path / "none").read() == []


def test_run_ids_are_uuid7_and_sort_by_time() -> None:
    first = new_run_id()
    time.sleep(0.002)
    second = new_run_id()
    assert first < second
    assert uuid.UUID(first).version == 7
    assert abs((uuid.UUID(first).int >> 80) / 1000 - time.time()) < 5


NO_RECORDS = ("", '{"run": RUN_Z, "seq', "[]", "3", '{"run": RUN_Z}', "\x00" * 64)


@pytest.mark.parametrize("text", NO_RECORDS)
def test_a_record_that_is_not_readable_holds_up_no_command(tmp_path: Path, text: str) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record(RUN_A, 1))
    (tmp_path / f"{RUN_B}-001.json").write_text(text)
    (tmp_path / f"{RUN_C}-003.json").write_text(json.dumps(_record(RUN_C, 3).as_json()))
    assert journal.durations() == {"host": 7.5}
    journal.append(_record(RUN_D, 4))
    assert journal.durations() == {"host": 10.0}
    assert [record.run for record in journal.read()] == [RUN_A, RUN_C, RUN_D]
    assert [record.run for record in journal.read(limit=3)] == [RUN_A, RUN_C, RUN_D]
    (named,) = journal.skipped()
    assert f"{RUN_B}-001.json" in named
    (tmp_path / f"{RUN_B}-001.json").unlink()
    assert [record.run for record in journal.read()] == [RUN_A, RUN_C, RUN_D]


def test_a_record_that_may_not_be_read_holds_up_no_command(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(_record(RUN_A, 1))
    (tmp_path / f"{RUN_B}-001.json").mkdir()
    assert journal.durations() == {"host": 2.5}
    assert journal.read() == [_record(RUN_A, 1)]
    (named,) = journal.skipped()
    assert f"{RUN_B}-001.json" in named


def test_a_record_has_its_name_only_once_it_is_whole_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, seen = os.fsync, []

    def fsync(descriptor: int) -> None:
        seen.append(sorted(path.name for path in tmp_path.glob("[0-9]*")))
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    FileJournal(tmp_path).append(_record(RUN_A, 1))
    assert seen == [[], [f"{RUN_A}-001.json"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{RUN_A}-001.json"]


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
            journal.append(_record(RUN_A, 1))
    assert list(tmp_path.glob("*")) == []
    assert list(tmp_path.glob(".*")) == []
    journal.append(_record(RUN_A, 1))
    assert journal.read() == [_record(RUN_A, 1)]


def test_a_file_system_without_links_keeps_records_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(_source: Path, _target: Path) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    test_a_record_is_never_written_twice(tmp_path)
    assert list(tmp_path.glob(".*")) == []


WHOLE = _record(RUN_B, 1).as_json()
POISON: dict[str, object] = {
    "a number as a node": {**WHOLE, "nodes": [5]},
    "a sentence for a list": {**WHOLE, "why": "w1: swap is on"},
    "text for seconds": {**WHOLE, "took_seconds": "2"},
    "seconds before zero": {**WHOLE, "took_seconds": -1},
    "an unknown outcome": {**WHOLE, "outcome": "fine"},
    "a command that is none": {**WHOLE, "command": "rm -rf /"},
    "no command": {**WHOLE, "command": ""},
    "a sequence of zero": {**WHOLE, "sequence": 0},
    "a yes for a sequence": {**WHOLE, "sequence": True},
    "control characters in a name": {**WHOLE, "operator": "ada\x1b[2K"},
    "a list for evidence": {**WHOLE, "before": []},
    "depth": {**WHOLE, "before": json.loads("[" * 200 + "]" * 200)},
    "half a character": {**WHOLE, "why": ["\ud800"]},
    "another run": {**WHOLE, "run": RUN_C},
    "a way out": {**WHOLE, "run": "../../../elsewhere/evil"},
    "a higher schema": {**WHOLE, "schema": 2},
    "a schema that is none": {**WHOLE, "schema": "1"},
}


@pytest.mark.parametrize("document", POISON.values(), ids=POISON.keys())
def test_a_poisoned_record_is_left_out_and_named(tmp_path: Path, document: object) -> None:
    journal = FileJournal(tmp_path / "journal")
    journal.append(_record(RUN_A, 1))
    name, text = f"{RUN_B}-001.json", json.dumps(document)
    merged = journal.merge({name: text, f"{RUN_C}-001.json": json.dumps(_of_c())})
    assert merged.new == 1
    (named,) = merged.skipped
    assert name in named
    (tmp_path / "journal" / name).write_text(text)
    assert [record.run for record in journal.read()] == [RUN_A, RUN_C]
    assert journal.durations() == {"host": 2.5}
    assert journal.document(name) is None
    (named,) = journal.skipped()
    assert name in named


def _of_c() -> dict[str, object]:
    return _record(RUN_C, 1).as_json()


def test_a_higher_schema_is_reported_with_its_number(tmp_path: Path) -> None:
    text = json.dumps({**WHOLE, "schema": 7, "nodes": {"of": "another shape"}})
    (named,) = FileJournal(tmp_path).merge({f"{RUN_B}-001.json": text}).skipped
    assert "schema 7, and this version reads 1 at most" in named


def test_the_oldest_records_and_those_with_more_fields_are_read(tmp_path: Path) -> None:
    """Before the journal travelled a record had neither host nor arguments."""
    old = {key: value for key, value in WHOLE.items() if key not in ("host", "arguments")}
    journal = FileJournal(tmp_path)
    texts = {f"{RUN_B}-001.json": json.dumps(old)}
    assert journal.merge(texts).new == 1
    texts = {f"{RUN_C}-001.json": json.dumps({**_of_c(), "added_later": {"a": 1}})}
    assert journal.merge(texts).new == 1
    assert journal.read() == [_record(RUN_B, 1), _record(RUN_C, 1)]


@pytest.mark.parametrize(
    "name",
    [
        "../" + RUN_B + "-001.json",
        "x/" + RUN_B + "-001.json",
        "/elsewhere/" + RUN_B + "-001.json",
        RUN_B + "-001.json\n",
        RUN_B.upper() + "-001.json",
        ".." * 16 + "-001.json",
        "",
        "x" * 5000 + ".json",
    ],
    ids=lambda name: repr(name)[:20],
)
def test_a_name_that_is_not_a_records_is_never_a_path(tmp_path: Path, name: str) -> None:
    journal = FileJournal(tmp_path / "site" / "journal")
    merged = journal.merge({name: json.dumps(WHOLE)})
    assert merged.new == 0
    assert len(merged.skipped) == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_link_a_pipe_or_an_endless_device_is_no_record(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    (tmp_path / "elsewhere").write_text(json.dumps(WHOLE))
    (tmp_path / f"{RUN_B}-001.json").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / f"{RUN_C}-001.json")
    (tmp_path / f"{RUN_D}-001.json").symlink_to("/dev/zero")
    assert journal.read() == []
    assert len(journal.skipped()) == 3


def test_what_the_journal_writes_it_can_read(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    odd = replace(
        _record(RUN_A, 1),
        operator="ad\udce9",
        arguments=("--reason", "a\nb" * 1000),
        error="two\nlines \udce9",
    )
    journal.append(odd)
    (found,) = journal.read()
    assert (found.operator, found.error) == ("ad?", "two\nlines ?")
    assert found.arguments[1].startswith("a ba b")


def test_the_index_of_earlier_versions_is_never_read_and_goes(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    (tmp_path / "index.sqlite").symlink_to(elsewhere)
    (tmp_path / "index.sqlite-journal").mkdir()
    (tmp_path / "index.sqlite-wal").write_bytes(b"\x00" * 64)
    assert journal.read() == []
    journal.append(_record(RUN_A, 1))
    assert journal.read() == [_record(RUN_A, 1)]
    assert elsewhere.read_text() == "theirs"
    left = {path.name for path in tmp_path.iterdir()} - {"elsewhere"}
    assert left == {"index.sqlite-journal", f"{RUN_A}-001.json"}
