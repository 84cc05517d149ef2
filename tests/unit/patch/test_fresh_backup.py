"""A patch asks for a fresh backup before it takes out or changes a node that carries data."""

from __future__ import annotations

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed
from tests.unit.backup.test_freshness import told_old, with_old_backup
from tests.unit.patch.bench import Bench


@pytest.fixture
def bench() -> Bench:
    """A site whose newest backup is old."""
    found = Bench()
    with_old_backup(found)
    return found


def test_without_a_fresh_backup_nothing_is_changed(bench: Bench) -> None:
    with pytest.raises(PreflightFailed, match=r"cp1, which carries etcd: .* 27 hours old") as why:
        bench.patch()
    assert "--without-backup" in str(why.value.hint)
    assert (bench.patched, bench.cordoned, bench.asked) == ([], [], [])


def test_a_dry_run_and_who_goes_on_without_one_are_told(bench: Bench) -> None:
    assert bench.patch(dry_run=True).plan.steps
    assert told_old(bench)
    bench.observer.said.clear()
    assert bench.patch(without_backup=True).done
    assert (told_old(bench), bench.patched) == (True, ["w1", "w2", "cp1"])


def test_workers_without_data_need_none(bench: Bench) -> None:
    assert bench.patch(nodes=("w1", "w2")).done
    assert not told_old(bench)


def test_a_worker_with_the_export_needs_one() -> None:
    bench = Bench(nfs={"server": "w1", "path": "/srv/nfs"})
    with_old_backup(bench)
    with pytest.raises(PreflightFailed, match="w1, which carries the data of volumes"):
        bench.patch(nodes=("w1",))
    assert bench.patched == []


def test_a_node_that_is_out_is_brought_back_with_an_old_backup(bench: Bench) -> None:
    bench.rack.fail_on["cp1"] = PlaybookFailed("cp1: no space")
    with pytest.raises(PlaybookFailed):
        bench.patch(without_backup=True)
    assert bench.cordoned == ["cp1"]
    bench.observer.said.clear()
    assert bench.patch().done
    assert (told_old(bench), bench.cordoned) == (True, [])


def test_where_nothing_is_left_to_do_none_is_asked_for(bench: Bench) -> None:
    bench.patch(without_backup=True)
    bench.observer.said.clear()
    assert not bench.patch().done
    assert not told_old(bench)
