"""A maintenance asks for a fresh backup before its first change, and not again as it goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import PreflightFailed
from appliance.model.backup.freshness import NEWEST
from appliance.model.site.recovery.carried import carried_by
from appliance.model.site.settings import Site
from tests.unit.backup.test_freshness import text, told_old, with_old_backup
from tests.unit.life.rack import IN_SERVICE, OUT, Bench


class Killed(BaseException):
    """SIGKILL: nothing of ours runs any more."""


EXPORT: dict[str, Any] = {"nfs": {"server": "w1", "path": "/srv/nfs"}}


@pytest.fixture
def bench() -> Bench:
    """A site whose newest backup is old, and whose worker w1 has the NFS export."""
    found = Bench(**EXPORT)
    with_old_backup(found)
    return found


def test_without_a_fresh_backup_the_node_stays_in_service(bench: Bench) -> None:
    with pytest.raises(PreflightFailed, match=r"w1, which carries the .* is 27 hours old") as why:
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


def test_a_worker_without_data_needs_none() -> None:
    bench = Bench()
    with_old_backup(bench)
    bench.maintain(needs_backup=True)
    assert (told_old(bench), bench.state) == (False, OUT)


def test_a_backup_without_run_ais_databases_is_none_for_the_node_that_has_them() -> None:
    bench = Bench(runai={}, **EXPORT)
    with_old_backup(bench)
    bench.archive.documents[NEWEST] = text(1, kinds=("etcd",))
    with pytest.raises(PreflightFailed, match=r"databases: the newest .* lacks Run:ai's databases"):
        bench.maintain(needs_backup=True)
    assert (bench.state, bench.asked) == (IN_SERVICE, [])
    bench.archive.documents[NEWEST] = text(1)
    bench.maintain(needs_backup=True)
    assert bench.state == OUT


def _carried(site: Site) -> list[str]:
    return [one.sentence() for one in carried_by(site, {node.name for node in site.nodes})]


def test_what_carries_data_is_told_of_each_node() -> None:
    assert _carried(Bench(3).desired.site) == [f"cp{n}, which carries etcd" for n in (1, 2, 3)]
    assert _carried(Bench(runai={}, **EXPORT).desired.site) == [
        "cp1, which carries etcd",
        "w1, which carries the data of volumes and Run:ai's databases",
    ]
    one = Bench(runai={}, nfs={"server": "cp1", "path": "/srv/nfs"}).desired.site
    assert _carried(one) == ["cp1, which carries etcd, the data of volumes and Run:ai's databases"]
    filer = Bench(runai={}, nfs={"server": "filer", "path": "/srv/nfs"}).desired.site
    assert _carried(filer) == ["cp1, which carries etcd"]
    assert carried_by(filer, {"w1"}) == ()
    alone = replace(carried_by(filer, {"cp1"})[0], databases=True)
    assert alone.sentence() == "cp1, which carries etcd and Run:ai's databases"
