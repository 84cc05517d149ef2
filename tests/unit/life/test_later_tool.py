"""A site that a later version of this tool wrote: who is refused, and what no record can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.journal import FileJournal
from appliance.errors import Refused
from appliance.model.control.later_tool import Writer, find_later, refusal, version_of
from tests.fakes import RUN_A, RUN_B, RUN_C

OWN = "0.8.0"


def document(run: str = RUN_A, **changes: Any) -> dict[str, Any]:
    """A record, with fields replaced; None leaves a field out."""
    whole = {
        "schema": 1,
        "run": run,
        "sequence": 1,
        "command": "install",
        "step": "host",
        "nodes": ["cp1"],
        "why": ["cp1: swap is on"],
        "started": "2026-01-01T00:00:00+00:00",
        "took_seconds": 1.0,
        "outcome": "verified",
        "operator": "ada",
        "tool_version": OWN,
        "host": "laptop",
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def later_in(folder: Path, *documents: dict[str, Any]) -> Writer | None:
    for one in documents:
        (folder / f"{one['run']}-001.json").write_text(json.dumps(one))
    return find_later(OWN, FileJournal(folder).later_writers(OWN))


@pytest.mark.parametrize(
    ("version", "is_later"),
    [
        ("0.9.0", True),
        ("0.10.0", True),
        ("0.8.1.dev0", True),
        ("1", True),
        (OWN, False),
        ("0.8.0+of.this.house", False),
        ("0.8.0.dev3", False),
        ("0.1.0", False),
        ("", False),
        ("trunk", False),
        ("9" * 65, False),
    ],
)
def test_a_later_version_is_found_by_its_numbers(
    tmp_path: Path, version: str, is_later: bool
) -> None:
    found = later_in(tmp_path, document(tool_version=version))
    assert (found is not None) is is_later
    assert FileJournal(tmp_path).skipped() == ()


def test_a_record_without_a_version_is_read(tmp_path: Path) -> None:
    assert later_in(tmp_path, document(tool_version=None)) is None
    (record,) = FileJournal(tmp_path).read()
    assert record.tool_version == ""


@pytest.mark.parametrize(
    "value", [7, None, ["0.9.0"], {"x": 1}, "0.9.0\x1b[2J", "0.9.0\n", "9" * 1001, True]
)
def test_a_version_of_another_type_is_the_fault_of_its_record_alone(
    tmp_path: Path, value: Any
) -> None:
    broken = {**document(RUN_A), "tool_version": value}
    assert later_in(tmp_path, broken, document(RUN_B)) is None
    assert [record.run for record in FileJournal(tmp_path).read()] == [RUN_B]
    assert len(FileJournal(tmp_path).skipped()) == 1


def test_the_latest_of_all_writers_is_named(tmp_path: Path) -> None:
    found = later_in(
        tmp_path,
        document(RUN_A, tool_version="0.9.0", host="laptop1"),
        document(RUN_B, tool_version="0.10.0", host="laptop2"),
        document(RUN_C),
    )
    assert found is not None
    error = refusal(found, OWN, "the site /rack7")
    assert isinstance(error, Refused)
    assert error.message == (
        "the site /rack7 was written by appliance 0.10.0 on laptop2; this is 0.8.0: "
        "nothing was changed"
    )
    assert error.details == (f"found in {tmp_path / f'{RUN_B}-001.json'}",)
    assert "appliance self upgrade --bundle" in str(error.hint)
    assert "if nobody has that version: appliance docs upgrade-this-tool" in str(error.hint)


@pytest.mark.parametrize(
    ("named", "version", "host"),
    [
        ({"tool_version": "0.9.0", "host": "far"}, "0.9.0", "far"),
        ({"tool_version": {"major": 1}, "host": 3}, "", ""),
        ({"tool_version": "0.9.0", "host": "\x1b[2J"}, "0.9.0", ""),
        ({"tool_version": None, "host": None}, "", ""),
    ],
)
def test_a_later_schema_is_later_whatever_it_says(
    tmp_path: Path, named: dict[str, Any], version: str, host: str
) -> None:
    found = later_in(tmp_path, {"schema": 2, "run": RUN_A, "new": {}, **named})
    assert found is not None
    assert (found.version, found.host, found.is_later_schema) == (version, host, True)
    assert "\x1b" not in found.sentence(OWN)


def test_a_record_of_a_later_schema_is_adopted_so_that_it_is_seen(tmp_path: Path) -> None:
    text = json.dumps({"schema": 2, "tool_version": "0.9.0"})
    journal = FileJournal(tmp_path)
    merged = journal.merge({f"{RUN_A}-001.json": text, f"{RUN_B}-001.json": "no JSON"})
    assert (merged.new, len(merged.skipped)) == (0, 2)
    assert [path.name for path in journal.paths()] == [f"{RUN_A}-001.json"]
    assert find_later(OWN, journal.later_writers(OWN)) is not None


def test_a_local_part_and_a_text_that_is_no_version_are_told_apart() -> None:
    assert str(version_of("0.8.0+x")) == "0.8.0"
    assert version_of("of today") is None


def test_a_forged_version_does_not_lock_a_site_for_ever(tmp_path: Path) -> None:
    """The way on of the page: the refusal names the file, and without it the site is changed."""
    found = later_in(tmp_path, document(RUN_A, tool_version="9999999.0"), document(RUN_B))
    assert found is not None
    Path(found.where).rename(tmp_path / "aside")
    assert find_later(OWN, FileJournal(tmp_path).later_writers(OWN)) is None
