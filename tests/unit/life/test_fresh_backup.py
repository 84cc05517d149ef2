"""A maintenance asks for a fresh backup before its first change, and not again as it goes on."""

from __future__ import annotations

import pytest

from appliance.errors import PreflightFailed
from tests.unit.backup.test_freshness import told_old, with_old_backup
from tests.unit.life.rack import IN_SERVICE, OUT, Bench


class Killed(BaseException):
    """SIGKILL: nothing of ours runs any more."""


@pytest.fixture
def bench() -> Bench:
    """A site whose newest backup is old."""
    found = Bench()
    with_old_backup(found)
    return found


def test_without_a_fresh_backup_the_node_stays_in_service(bench: Bench) -> None:
    with pytest.raises(PreflightFailed, match=r"w1, which carries data .* is 27 hours old") as why:
        bench.maintain(needs_backup=True)
    assert "--without-backup" in str(why.value.hint)
    assert (bench.state, bench.asked) == (IN_SERVICE, [])


def test_a_dry_run_and_who_goes_on_without_one_are_told(bench: Bench) -> None:
    bench.maintain(needs_backup=True, dry_run=True)
    assert told_old(bench)
    bench.observer.said.clear()
    bench.maintain(needs_backup=True, without_backup=True)
    assert (told_old(bench), bench.state) == (True, OUT)


def test_a_node_that_is_partly_out_goes_on_with_an_old_backup(bench: Bench) -> None:
    bench.drain.fail_at["taint on"] = Killed()
    with pytest.raises(Killed):
        bench.maintain(needs_backup=True, without_backup=True)
    assert bench.drain.unschedulable
    bench.observer.said.clear()
    bench.maintain(needs_backup=True)
    assert (told_old(bench), bench.state) == (True, OUT)


def test_a_node_that_is_out_is_switched_off_with_an_old_backup(bench: Bench) -> None:
    bench.maintain(needs_backup=True, without_backup=True)
    assert bench.maintain(needs_backup=True, shutdown=True).off


def test_where_nothing_is_left_to_do_nothing_is_said(bench: Bench) -> None:
    bench.maintain(needs_backup=True, without_backup=True)
    bench.observer.said.clear()
    assert bench.maintain(needs_backup=True).already
    assert not told_old(bench)


def test_a_node_that_was_marked_as_lost_was_never_asked_for_one(bench: Bench) -> None:
    bench.drain.ready = False
    bench.maintain(lost=True)
    bench.drain.ready = True
    with pytest.raises(PreflightFailed, match="is 27 hours old"):
        bench.maintain(needs_backup=True, shutdown=True)


def test_a_worker_needs_none(bench: Bench) -> None:
    bench.maintain()
    assert (told_old(bench), bench.state) == (False, OUT)
