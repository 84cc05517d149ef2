"""Other commands while an upgrade is under way: which are refused, and which must not be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import PlaybookFailed, PreflightFailed, StepNotVerified
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.upgrade import ANNOTATION, UpgradeMark, mark_of
from tests.fakes import FakeRack
from tests.unit.certificates.rack import rack as certificates
from tests.unit.certificates.test_renew_workflow import Site as Renewing
from tests.unit.life.rack import Bench as Maintaining
from tests.unit.membership.test_node_remove import Bench as Removing
from tests.unit.runai.test_runai_upgrade import Bench as UpgradingRunai
from tests.unit.upgrade.rack import Bench as Upgrading
from tests.unit.upgrade.test_window import record

MARK = UpgradeMark("k8s-1.23.17-r1", "2026-01-01T00:00:00+00:00", "ada on laptop")


def marked(rack: FakeRack, mark: UpgradeMark = MARK) -> None:
    change(rack, "cp1", annotations={ANNOTATION: mark.as_text()})


def change(rack: FakeRack, name: str, **changes: Any) -> None:
    assert isinstance(rack.cluster, Cluster)
    nodes = rack.cluster.nodes
    rack.cluster = replace(rack.cluster, nodes={**nodes, name: replace(nodes[name], **changes)})


def test_certificates_are_not_renewed_but_where_one_ends_soon() -> None:
    site = Renewing(certificates(cp1={"server": 8}))
    marked(site.rack)
    with pytest.raises(PreflightFailed, match="is under way"):
        site.renew()
    assert site.played == []
    for days in (-1, 5):
        ending = Renewing(certificates(cp1={"server": days}))
        marked(ending.rack)
        assert ending.renew().done


def test_certificates_that_end_in_the_window_are_renewed_for_the_upgrade_refuses_them() -> None:
    long = replace(MARK, window_days=12.5)
    for days, renewed in ((8, True), (12, True), (13, False)):
        site = Renewing(certificates(cp1={"server": days}))
        marked(site.rack, long)
        if renewed:
            assert site.renew().done
            continue
        with pytest.raises(PreflightFailed, match="is under way"):
            site.renew()


def test_a_mark_has_its_window_only_where_it_is_long() -> None:
    assert "window_days" not in MARK.as_text()
    rack = Renewing(certificates()).rack
    for days, found in ((12.5, 12.5), (-1.0, None), (1e9, None), (float("inf"), None)):
        marked(rack, replace(MARK, window_days=days))
        mark = mark_of(rack.cluster)
        assert mark is not None
        assert (mark.window_days if mark.is_readable else None) == found


def test_certificates_are_renewed_when_only_a_debt_is_left() -> None:
    site = Renewing(certificates(cp1={"server": 5}))
    marked(site.rack, replace(MARK, over=True, without=("w2",)))
    assert site.renew().done


def test_run_ai_is_not_upgraded() -> None:
    bench = UpgradingRunai()
    marked(bench.rack)
    with pytest.raises(PreflightFailed, match="is under way"):
        bench.upgrade()
    assert bench.rack.plays == []


def test_a_control_plane_node_that_works_is_not_removed_a_lost_one_and_a_worker_are() -> None:
    bench = Removing(masters=3)
    marked(bench.rack)
    with pytest.raises(PreflightFailed, match="is under way"):
        bench.remove("cp2")
    assert (bench.steps, bench.rack.deleted) == ([], [])
    assert bench.remove("w2").done
    lost = Removing(masters=3, sick=("cp3",))
    marked(lost.rack)
    lost.die("cp3")
    assert lost.remove("cp3", sworn=True).done


@pytest.mark.parametrize(
    ("mark", "returns"),
    [
        (None, False),
        (MARK, True),
        (replace(MARK, over=True, without=("w1",)), True),
        (replace(MARK, over=True, without=("w2",)), False),
    ],
)
def test_a_node_that_a_person_maintained_returns_with_its_old_kubelet(
    mark: UpgradeMark | None, returns: bool
) -> None:
    bench = Maintaining()
    bench.maintain()
    change(bench.rack, "w1", version="v1.22.1")
    if mark:
        marked(bench.rack, mark)
    if returns:
        bench.bring_back()
        assert bench.state == (False, (), False)
        return
    with pytest.raises(StepNotVerified, match="its kubelet is"):
        bench.bring_back()


def test_a_node_of_the_upgrade_returns_with_the_release_alone() -> None:
    bench = Maintaining()
    bench.maintain(reason="upgrade to k8s-1.23.17-r1")
    change(bench.rack, "w1", version="v1.22.1")
    marked(bench.rack)
    with pytest.raises(StepNotVerified, match="its kubelet is"):
        bench.bring_back()


@pytest.mark.parametrize(("days", "expected"), [(0.1, 0.0), (9.0, 10.0)])
def test_an_upgrade_writes_down_how_far_its_gate_looks(days: float, expected: float) -> None:
    bench = Upgrading(workers=1)
    bench.journal.append(record("upgrade: kubelet", "w1", days * 86_400))
    bench.rack.fail_on["cp1"] = PlaybookFailed("cp1: kubeadm ended with 1")
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert expected <= mark.window_days <= 3 * expected
