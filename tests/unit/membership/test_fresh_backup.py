"""A removal asks for a fresh backup before it cleans a machine that carries data."""

from __future__ import annotations

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed
from appliance.model.backup.freshness import NEWEST
from tests.unit.backup.test_freshness import WANTED, text
from tests.unit.membership.test_node_remove import Bench


@pytest.fixture
def bench() -> Bench:
    """Three control planes, and a newest backup that is old."""
    found = Bench(3)
    object.__setattr__(found.rack.desired.site.settings, "backup", WANTED)
    found.archive.documents[NEWEST] = text(27)
    return found


def test_without_a_fresh_backup_nothing_is_changed(bench: Bench) -> None:
    with pytest.raises(PreflightFailed, match=r"cp2, which carries etcd: .* 27 hours old") as why:
        bench.remove("cp2")
    assert "--without-backup" in str(why.value.hint)
    assert (bench.steps, bench.machines) == ([], [])
    bench.remove("cp2", dry_run=True)
    assert bench.remove("cp2", without_backup=True).done


def test_a_fresh_one_and_a_worker_without_data_need_no_option(bench: Bench) -> None:
    assert bench.remove("w1").done
    bench.archive.documents[NEWEST] = text(1)
    assert bench.remove("cp2").done


def test_a_machine_that_is_off_is_removed_with_an_old_one(bench: Bench) -> None:
    bench.die("cp2")
    assert bench.remove("cp2", sworn=True).done


def test_a_removal_that_began_goes_on_with_an_old_one(bench: Bench) -> None:
    bench.rack.fail["node_reset"] = PlaybookFailed("cp2: kubeadm reset")
    with pytest.raises(PlaybookFailed):
        bench.remove("cp2", without_backup=True)
    bench.rack.fail.clear()
    assert bench.remove("cp2").done
