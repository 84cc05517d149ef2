"""What is written down of members, read from the nodes: what could not be read is not forgotten."""

from __future__ import annotations

import pytest

from appliance.errors import ApplianceError, NodeUnreachable, Refused
from appliance.model.node.membership import MemberRecord, Removal
from appliance.model.state.nodes.node_metadata import NodeMetadata
from appliance.workflows.session.member_records import read_records
from tests.fakes import FakeArchive

GONE = MemberRecord("w1", Removal("ada@laptop", "2026-01-01T00:00:00+00:00"), NodeMetadata())
STAYS = MemberRecord("w2", None, NodeMetadata({"team": "red"}))


@pytest.fixture
def archive() -> FakeArchive:
    found = FakeArchive()
    found.put(GONE.document, GONE.text())
    found.put(STAYS.document, STAYS.text())
    return found


def test_records_are_read_by_their_nodes(archive: FakeArchive) -> None:
    records = read_records(archive)
    assert records == {"w1": GONE, "w2": STAYS}
    records.require()


def test_where_nothing_was_ever_written_there_is_none() -> None:
    records = read_records(FakeArchive())
    assert records == {}
    records.require()


def test_without_an_answer_there_is_no_removal_record_to_read_or_change(
    archive: FakeArchive,
) -> None:
    archive.away = NodeUnreachable("no control-plane node answers: cp1: gone", hint="ping it")
    records = read_records(archive)
    assert records == {}
    with pytest.raises(NodeUnreachable, match=r"removed on purpose: .*cp1: gone") as told:
        records.require()
    assert told.value.hint == "ping it"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"node": "w1", "removed": {"by": "ada"}}',
        '{"node": "w1", "kept": [1]}',
        '{"node": "w2"}',
        '{"node": "../w1"}',
        '{"node": "w1", "removed": {"by": 5, "at": "now"}}',
        '{"node": "w1", "kept": {"labels": {"a": {}}}}',
        "[" * 100_000,
        '{"node": "w1", "schema": 2}',
    ],
)
def test_a_record_that_is_not_whole_hides_no_other_and_changes_nothing(
    archive: FakeArchive, text: str
) -> None:
    archive.put(GONE.document, text)
    records = read_records(archive)
    assert records == {"w2": STAYS}
    with pytest.raises(Refused, match=r"members/w1\.json") as told:
        records.require()
    assert isinstance(told.value, ApplianceError)
    assert "sudo rm /var/lib/appliance/archive/members/w1.json" in (told.value.hint or "")
