"""An upgrade asks for a fresh backup before its first change, and not again while it goes on."""

from __future__ import annotations

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed
from appliance.model.backup.freshness import NEWEST
from tests.unit.backup.test_freshness import text, told_old, with_old_backup
from tests.unit.upgrade.rack import Bench


@pytest.fixture
def bench() -> Bench:
    """A site whose newest backup is old."""
    found = Bench()
    with_old_backup(found)
    return found


def test_without_a_fresh_backup_nothing_is_changed(bench: Bench) -> None:
    with pytest.raises(PreflightFailed, match="is 27 hours old") as refused:
        bench.upgrade()
    assert "--without-backup" in str(refused.value.hint)
    assert (bench.rack.done, bench.asked) == ([], [])


def test_a_dry_run_says_it_and_shows_the_plan(bench: Bench) -> None:
    assert bench.upgrade(dry_run=True).plan.steps
    assert told_old(bench)


def test_an_upgrade_that_goes_on_is_told_and_not_refused(bench: Bench) -> None:
    bench.archive.documents[NEWEST] = text(25)
    assert not bench.upgrade(pause_after="cp1").ended
    assert not told_old(bench)
    bench.archive.documents[NEWEST] = text(27)
    assert bench.upgrade().ended
    assert told_old(bench)


def test_a_step_back_asks_for_none(bench: Bench) -> None:
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: the kubelet does not start")
    with pytest.raises(PlaybookFailed):
        bench.upgrade(without_backup=True)
    assert bench.upgrade(back="w1").done


def test_who_goes_on_without_one_is_told(bench: Bench) -> None:
    assert bench.upgrade(without_backup=True).ended
    assert told_old(bench)


def test_where_nothing_is_left_to_do_none_is_asked_for(bench: Bench) -> None:
    bench.upgrade(without_backup=True)
    assert not bench.upgrade().done
