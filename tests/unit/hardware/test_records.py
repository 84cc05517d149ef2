"""Records of qualifications stand beside the passports: when, of which machine, and how large."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.kept_documents import KeptDocuments
from appliance.errors import NodeUnreachable
from appliance.model.checks.hardware.reading import Reading, qualifications
from appliance.model.checks.hardware.record import MOST_BYTES, kept_of
from appliance.model.node.baseline import Passport
from appliance.workflows.hardware.qualify import keep
from appliance.workflows.hardware.records import (
    carry_over,
    is_older,
    is_older_burn_in,
    keep_with_passports,
)
from tests.fake_documents import FakeDocuments
from tests.fakes import FakeArchive
from tests.unit.hardware.burning import record as burnt_in
from tests.unit.hardware.made_up import expectation, machine

NAME = "hardware/w1.json"


def passport(serial: str = "SN-1", **identity: Any) -> Passport:
    return Passport("w1", {"machine": serial}, **identity)


def records(documents: FakeDocuments, now: float = 0.0, **change: Any) -> dict[str, str]:
    found = qualifications({"w1": Reading(machine(change))}, {"w1": expectation()})
    return dict(keep(found, documents, "USER@HOST", now, "9.9.9"))


def test_before_there_is_a_passport_a_record_stays_on_this_machine() -> None:
    documents, archive = FakeDocuments(), FakeArchive()
    assert keep_with_passports(records(documents), archive) == ()
    assert (list(documents.texts), archive.documents) == ([NAME], {})


def test_with_a_passport_it_is_kept_beside_it() -> None:
    documents, archive = FakeDocuments(), FakeArchive()
    archive.documents["passports/w1.json"] = passport().text()
    assert keep_with_passports(records(documents), archive) == ()
    assert archive.documents[NAME] == documents.texts[NAME]
    kept = kept_of(archive.documents[NAME], "w1")
    assert kept is not None
    assert (kept.machine.serial, kept.at) == ("SN-1", "1970-01-01T00:00:00+00:00")


def test_of_another_machine_it_is_not_kept_and_the_way_is_told() -> None:
    archive = FakeArchive()
    archive.documents["passports/w1.json"] = passport("SN-9").text()
    (said,) = keep_with_passports(records(FakeDocuments()), archive)
    assert "(serial SN-9)" in said
    assert "appliance node passport w1 --acknowledge" in said
    assert NAME not in archive.documents


def test_what_cannot_be_kept_there_is_said() -> None:
    archive = FakeArchive()
    archive.away = NodeUnreachable("no control-plane node answers")
    (said,) = keep_with_passports(records(FakeDocuments()), archive)
    assert said == "the records are kept on this machine alone: no control-plane node answers"
    assert keep_with_passports({}, archive) == ()


def test_a_record_that_is_too_large_stays_here() -> None:
    archive = FakeArchive()
    archive.documents["passports/w1.json"] = passport().text()
    (said,) = keep_with_passports({"w1": "x" * (MOST_BYTES + 1)}, archive)
    assert "larger than 512 KiB" in said
    assert NAME not in archive.documents


def test_with_the_first_passport_the_record_follows() -> None:
    documents, archive = FakeDocuments(), FakeArchive()
    records(documents)
    assert carry_over(["w1"], documents, archive) == ()
    assert archive.documents == {}
    archive.documents["passports/w1.json"] = passport().text()
    assert carry_over(["w1", "w2"], documents, archive) == ()
    first = archive.documents[NAME]
    records(documents, 60.0)
    carry_over(["w1"], documents, archive)
    assert archive.documents[NAME] == first, "what is there is not replaced by an install"
    carry_over(["w1"], documents, archive, {"w1"})
    assert archive.documents[NAME] == documents.texts[NAME]


@pytest.mark.parametrize("serial", ["SN-9", ""])
def test_a_record_of_another_or_unknown_machine_does_not_follow(serial: str) -> None:
    documents, archive = FakeDocuments(), FakeArchive()
    records(documents)
    archive.documents["passports/w1.json"] = passport(serial).text()
    assert carry_over(["w1"], documents, archive, {"w1"}) == ()
    assert NAME not in archive.documents


def test_nodes_that_are_away_are_told_and_nobody_is_asked_without_a_record() -> None:
    documents, archive = FakeDocuments(), FakeArchive()
    archive.away = NodeUnreachable("no control-plane node answers")
    assert carry_over(["w1"], documents, archive) == ()
    records(documents)
    (said,) = carry_over(["w1"], documents, archive)
    assert "no control-plane node answers" in said


def test_the_later_record_of_this_machine_is_not_replaced_by_an_older_one() -> None:
    documents = FakeDocuments()
    old = records(FakeDocuments(), 0.0)["w1"]
    new = records(FakeDocuments(), 60.0)["w1"]
    assert not is_older(documents, NAME, old)
    documents.texts[NAME] = new
    assert is_older(documents, NAME, old)
    assert is_older(documents, NAME, "{}")
    assert not is_older(documents, NAME, new)


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "{", "[]", "7", "{}", "[" * 9000),
        *('{"schema": 1, "node": "w2"}', '{"schema": 2, "node": "w1"}'),
    ],
)
def test_any_other_text_is_no_record(text: str | None) -> None:
    assert kept_of(text, "w1") is None


def test_strange_values_in_a_record_tell_nothing() -> None:
    told = {"schema": 1, "node": "w1", "serial": 7, "probe": {"identity": {"uuid": []}}, "bmc": []}
    kept = kept_of(json.dumps(told), "w1")
    assert kept is not None
    assert not kept.machine.is_told


def test_a_link_or_a_pipe_in_a_documents_place_is_not_read(tmp_path: Path) -> None:
    kept = KeptDocuments(tmp_path)
    assert kept.read(NAME) is None
    kept.keep(NAME, "{}\n")
    assert kept.read(NAME) == "{}\n"
    (tmp_path / "hardware/w2.json").symlink_to(tmp_path / NAME)
    os.mkfifo(tmp_path / "hardware/w3.json")
    (tmp_path / "hardware/w4.json").write_bytes(b"\xff")
    for name in ("w2", "w3", "w4"):
        assert kept.read(f"hardware/{name}.json") in (None, "")


def test_with_the_first_passport_the_burn_in_of_its_machine_follows() -> None:
    documents, archive = FakeDocuments(), FakeArchive()
    one = burnt_in()
    records(documents)
    documents.texts["burn-in/SN-1.json"] = one.text()
    assert carry_over(["w1"], documents, archive) == ()
    assert archive.documents == {}
    archive.documents["passports/w1.json"] = passport().text()
    assert carry_over(["w1"], documents, archive) == ()
    assert archive.documents["burn-in/SN-1.json"] == one.text()
    archive.documents["burn-in/SN-1.json"] = "another laptop's"
    assert carry_over(["w1"], documents, archive) == ()
    assert archive.documents["burn-in/SN-1.json"] == "another laptop's"


def test_a_later_burn_in_of_this_machine_is_not_replaced() -> None:
    documents, name = FakeDocuments(), "burn-in/SN-1.json"
    one = burnt_in()
    older = one.model_copy(update={"at": "2025-01-01T00:00:00+00:00"})
    assert not is_older_burn_in(documents, name, one.text())
    documents.texts[name] = one.text()
    assert is_older_burn_in(documents, name, older.text())
    assert is_older_burn_in(documents, name, "{}")
    documents.texts[name] = older.text()
    assert not is_older_burn_in(documents, name, one.text())
