"""``rack down`` asks for a fresh backup before its first change, and not again as it goes on."""

from __future__ import annotations

import pytest

from appliance.errors import PreflightFailed
from tests.unit.backup.test_freshness import told_old, with_old_backup
from tests.unit.rack.bench import Bench, Killed


@pytest.fixture
def bench() -> Bench:
    """A rack whose newest backup is old."""
    found = Bench()
    with_old_backup(found)
    found.site = found.desired.site
    return found


def test_without_a_fresh_backup_the_rack_stays_up(bench: Bench) -> None:
    with pytest.raises(PreflightFailed, match=r"cp3, which carries etcd: .* 27 hours old") as why:
        bench.down()
    assert "--without-backup" in str(why.value.hint)
    assert (bench.asked, bench.world.effects) == ([], [])
    assert bench.down(dry_run=True).planned
    assert told_old(bench)


def test_a_run_that_was_killed_goes_on_with_an_old_one(bench: Bench) -> None:
    bench.world.kill_at = 6
    with pytest.raises(Killed):
        bench.down(without_backup=True)
    bench.revive()
    bench.down()
    assert bench.world.on == set()
