"""What is said of a site's last run to another engineer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.model.control.handover import UnfinishedRun, handover
from appliance.model.control.lock import Holder, LockVerdict, read_holder
from appliance.model.state.journal import Outcome, Record

BOB = Holder("run-b", "node maintain", "bob", "desk", "a DIMM", "T")


def record(
    run: str, sequence: int, outcome: Outcome = "verified", command: str = "install"
) -> Record:
    return Record(
        run=run,
        sequence=sequence,
        command=command,
        step=f"step-{sequence}",
        nodes=("w1",),
        why=(),
        started="2026-01-01T00:00:00+00:00",
        took_seconds=1.0,
        outcome=outcome,
        operator="ada",
        tool_version="1",
        error=None if outcome == "verified" else "w1: no",
        host="laptop",
    )


FREE = LockVerdict("open")
LEFT = LockVerdict("open", stale={"cp1": BOB})
STOPPED = (
    "install by ada on laptop since 2026-01-01T00:00:00+00:00 stopped in step step-2 on w1: "
    "failed: w1: no"
)
CUT = "node maintain (a DIMM) by bob on desk since T was interrupted "


@pytest.mark.parametrize(
    ("records", "lock", "unfinished"),
    [
        ([], FREE, None),
        ([record("run-a", 1)], FREE, None),
        ([record("run-a", 1, "failed"), record("run-b", 1)], FREE, None),
        (
            [record("run-a", 1), record("run-a", 2, "failed")],
            FREE,
            UnfinishedRun("run-a", STOPPED, ("install",)),
        ),
        (
            [record("run-a", 1)],
            LEFT,
            UnfinishedRun(
                "run-b",
                f"{CUT}before its first step was recorded: it left its lock behind",
                ("node", "maintain", "NODE"),
            ),
        ),
        (
            [record("run-b", 1, command="node maintain")],
            LEFT,
            UnfinishedRun(
                "run-b",
                f"{CUT}after step step-1: it left its lock behind",
                ("node", "maintain", "w1"),
            ),
        ),
        ([record("run-b", 1), record("run-c", 1)], LEFT, None),
    ],
)
def test_how_a_site_was_left(
    records: list[Record], lock: LockVerdict, unfinished: UnfinishedRun | None
) -> None:
    assert handover(records, lock).unfinished == unfinished
    assert handover(records, lock).at_work is None


def test_who_is_at_work_is_not_half_done() -> None:
    found = handover([record("run-a", 1, "failed")], LockVerdict("held", rival=BOB))
    assert (found.unfinished, found.at_work) == (None, BOB)


def test_what_was_typed_is_typed_again() -> None:
    typed = ("w3", "--replace", "w2")
    left = replace(record("run-a", 1, "failed", "node add"), nodes=("cp1", "w3"), arguments=typed)
    found = handover([left], FREE).unfinished
    assert found
    assert found.words == ("node", "add", *typed)
    bob = replace(BOB, arguments=("w1", "--lost"))
    found = handover([], LockVerdict("open", stale={"cp1": bob})).unfinished
    assert found
    assert found.words == ("node", "maintain", "w1", "--lost")


def test_a_run_over_several_nodes_is_not_told_as_one_for_all_of_them() -> None:
    left = replace(record("run-a", 1, "failed", "node rejoin"), nodes=("cp1", "w1", "w2"))
    found = handover([left], FREE).unfinished
    assert found
    assert found.words == ("node", "rejoin", "NODE")


def test_the_lock_file_keeps_what_was_typed() -> None:
    bob = replace(BOB, arguments=("w1", "--lost"))
    assert read_holder(bob.as_line()) == bob
