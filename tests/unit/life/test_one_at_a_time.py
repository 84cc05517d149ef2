"""A command whose site is taken writes nothing, and one that loses it does not go on."""

from __future__ import annotations

import pytest

from appliance.errors import LeaseLost, Refused
from tests.unit.life.rack import Bench, web
from tests.unit.membership import test_joining, test_node_remove

TAKEN = Refused(
    "another command is at work on this site: node maintain by bob on desk", hint="wait"
)
LOST = LeaseLost("the site is no longer this command's", hint="see what is at work")


def test_a_refused_maintain_leaves_the_marks_of_the_one_at_work() -> None:
    """It saw an idle node; since then the other has marked it, and must find its marks again."""
    bench = Bench()
    bench.journal.refuse = TAKEN
    with pytest.raises(Refused, match="bob on desk"):
        bench.maintain()
    assert len(bench.asked) == 1
    assert (bench.drain.log, bench.archive.documents, bench.journal.records) == ([], {}, [])


def test_a_maintain_that_lost_the_site_evicts_and_restores_nothing_more() -> None:
    bench = Bench()
    bench.drain.pods = [web()]
    begin = bench.journal.require

    def lost_after_the_cordon() -> tuple[str, ...]:
        bench.journal.refuse = LOST if bench.journal.records else None
        return begin()

    bench.journal.require = lost_after_the_cordon  # type: ignore[method-assign]
    with pytest.raises(LeaseLost) as failed:
        bench.maintain()
    assert bench.drain.log == ["mark cordon"]
    assert (
        "w1 was left unchanged: another command has the site's lock now: appliance status"
        in failed.value.details
    )


def test_a_refused_return_changes_nothing() -> None:
    bench = Bench()
    bench.maintain()
    state, log = bench.state, list(bench.drain.log)
    bench.journal.refuse = TAKEN
    with pytest.raises(Refused):
        bench.bring_back()
    assert (bench.state, bench.drain.log) == (state, log)


def test_a_refused_remove_drains_and_writes_nothing() -> None:
    bench = test_node_remove.Bench()
    bench.journal.refuse = TAKEN
    with pytest.raises(Refused):
        bench.remove("w2")
    assert (bench.emptying.emptied, bench.archive.documents, bench.rack.plays) == ([], {}, [])


def test_a_refused_rejoin_does_not_even_write_down_what_the_old_node_had() -> None:
    bench = test_joining.Bench()
    bench.wipe("w2")
    bench.journal.refuse = TAKEN
    with pytest.raises(Refused):
        bench.rejoin("w2")
    assert (bench.archive.documents, bench.rack.plays, bench.rack.put_backs) == ({}, [], [])


@pytest.mark.parametrize("dry", [True, False])
def test_who_only_looks_takes_nothing(dry: bool) -> None:
    bench = Bench()
    if dry:
        bench.maintain(dry_run=True)
    else:
        bench.answer = False
        with pytest.raises(Refused, match="not confirmed"):
            bench.maintain()
    assert bench.journal.begun == 0
