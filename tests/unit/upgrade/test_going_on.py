"""An upgrade that goes on: what was accepted, saved and changed by hand since it began."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ClusterError, PreflightFailed, StepNotVerified
from appliance.model.state.upgrade import ANNOTATION as MARK
from appliance.model.state.upgrade import UpgradeMark, mark_of
from appliance.model.upgrade.evidence import EtcdStatus, Silence
from appliance.model.upgrade.handmade.kubelet_units import UNIT
from tests import samples
from tests.unit.upgrade.handmade import units
from tests.unit.upgrade.rack import NEW, NEXT, Bench, FakeEvidence
from tests.unit.upgrade.test_upgrade_workflow import judged


def evidence_of(bench: Bench) -> FakeEvidence:
    assert bench.evidence is not None
    return bench.evidence


def mark(bench: Bench) -> UpgradeMark:
    found = mark_of(bench.rack.cluster)
    assert found is not None
    return found


def snapshots(bench: Bench) -> list[str]:
    return [what for what in bench.rack.done if what.startswith("snapshot")]


def test_a_hand_edit_in_a_pause_is_refused_by_name_before_it_is_dropped() -> None:
    bench = judged()
    bench.upgrade(pause_after="cp1")
    evidence_of(bench).kubelets = {"maxPods": 200}
    before = list(bench.rack.done)
    with pytest.raises(PreflightFailed, match=r"kubelet\.maxPods on w1, w2 is 200"):
        bench.upgrade()
    assert bench.rack.done == before
    found = bench.upgrade(dry_run=True)
    judged_now = [(gate.name, gate.verdict) for gate in found.gates]
    assert judged_now == [
        ("dropped", "no-go"),
        *((n, "go") for n in ("docker", "runai-runtime", "gpu-toolkit", "budgets")),
        *((n, "go") for n in ("certificates", "disk")),
    ]


def test_what_was_given_up_by_name_is_remembered_from_any_laptop() -> None:
    bench = judged()
    evidence_of(bench).kubelets = {"maxPods": 200}
    bench.upgrade(pause_after="cp1", accepted=frozenset({"kubelet.maxPods"}))
    assert mark(bench).accepted == ("kubelet.maxPods",)
    evidence_of(bench).kubelets = {"maxPods": 200, "podPidsLimit": 9}
    with pytest.raises(PreflightFailed, match="podPidsLimit") as refused:
        bench.upgrade()
    assert "maxPods" not in str(refused.value)
    assert bench.upgrade(accepted=frozenset({"kubelet.podPidsLimit"})).ended


def test_what_another_upgrade_gave_up_counts_for_no_later_one() -> None:
    bench = judged()
    evidence_of(bench).kubelets = {"maxPods": 200}
    bench.upgrade(accepted=frozenset({"kubelet.maxPods"}), pause_after="cp1")
    old = mark(bench)
    assert bench.upgrade().ended
    assert old.accepted == ("kubelet.maxPods",)
    assert mark_of(bench.rack.cluster) is None


def test_a_setting_of_a_node_that_has_the_release_is_not_compared_again() -> None:
    bench = judged()
    bench.upgrade(pause_after="w1")
    documents = evidence_of(bench).documents

    def only_on_w1(members: Any) -> Any:
        found = documents(members)
        files: dict[str, Any] = dict(found.kubelet_files)
        files["w1"] = files["w1"] | {"maxPods": 200}
        object.__setattr__(found, "kubelet_files", files)
        return found

    evidence_of(bench).documents = only_on_w1  # type: ignore[method-assign]
    assert bench.upgrade().ended


def test_an_edited_unit_is_refused_by_name_until_its_kubelet_is_new() -> None:
    bench, name = judged(), "kubelet-unit.Service.Restart"
    evidence_of(bench).units = {UNIT: units()[UNIT].replace("always", "no")}
    before = list(bench.rack.done)
    with pytest.raises(PreflightFailed, match=rf"{name} on cp1, w1, w2 is no; this tool writes"):
        bench.upgrade()
    assert bench.rack.done == before
    bench.upgrade(pause_after="w1", accepted=frozenset({name}))
    evidence_of(bench).units = {UNIT: units()[UNIT].replace("RestartSec=5", "RestartSec=9")}
    # Nothing is written any more on the nodes that are done.
    with pytest.raises(PreflightFailed, match=r"kubelet-unit\.Service\.RestartSec on w2 is 9"):
        bench.upgrade()
    evidence_of(bench).units = {}
    assert bench.upgrade().ended


def test_between_two_releases_everything_is_judged_again() -> None:
    bench = judged(to=NEXT)
    known = copy.deepcopy(bench.rack.documents)
    bench.upgrade(pause_after=NEW)
    # A play of the fake makes its hosts as the site says, which has no clock.
    for name, document in bench.rack.documents.items():
        document |= {key: known[name][key] for key in ("clock", "filesystems", "kubernetes")}
    evidence_of(bench).uses = Silence("metrics: status 403")
    before = list(bench.rack.done)
    with pytest.raises(PreflightFailed, match="metrics: status 403"):
        bench.upgrade()
    assert bench.rack.done == before
    evidence_of(bench).uses = ()
    assert bench.upgrade().ended


def test_the_first_snapshot_is_the_way_back_and_is_saved_once() -> None:
    bench = judged()
    bench.upgrade(pause_after="cp1")
    assert mark(bench).snapshots == (f"{NEW} cp1 /snapshots/1.db",)
    assert bench.upgrade().ended
    assert snapshots(bench) == ["snapshot cp1 upgrade"]


def test_each_release_has_its_snapshot_and_the_one_before_it_is_kept() -> None:
    bench = judged(to=NEXT)
    assert bench.upgrade().ended
    assert snapshots(bench) == ["snapshot cp1 upgrade", "snapshot cp1 upgrade 1.db"]


def test_kubeadm_saves_none_of_its_own_where_one_is_on_record() -> None:
    bench = judged()
    bench.upgrade()
    seen = {
        play.inventory["all"]["vars"]["kubernetes_upgrade_snapshot"]
        for play in bench.rack.plays
        if play.playbook == "kubernetes_upgrade"
    }
    assert seen == {False}


@pytest.mark.parametrize(
    ("gone", "made"), [({"/snapshots/1.db"}, 2), (set(), 1), (Silence("no answer"), 1)]
)
def test_a_snapshot_on_record_that_is_gone_is_made_again(gone: Any, made: int) -> None:
    bench = judged(masters=3)
    bench.upgrade(pause_after="cp2")
    evidence_of(bench).gone = gone
    bench.upgrade(pause_after="cp3")
    assert len(snapshots(bench)) == made
    assert mark(bench).snapshots == (f"{NEW} {'cp3' if made == 2 else 'cp2'} /snapshots/1.db",)


@pytest.mark.parametrize("named", [f"{NEW} w1 /snapshots/1.db", NEW, f"{NEW} cp9 /x y"])
def test_a_snapshot_that_no_control_plane_can_have_is_made_again(named: str) -> None:
    bench = judged(masters=3)
    bench.upgrade(pause_after="cp2")
    found = replace(mark(bench), snapshots=(named,)).as_text()
    masters = ["cp1", "cp2", "cp3"]
    bench.rack.cluster = samples.annotated(bench.rack.api, masters, MARK, found)
    assert bench.upgrade().ended
    assert len(snapshots(bench)) == 2


def test_what_was_kept_before_an_upgrade_has_a_name_of_that_upgrade() -> None:
    bench = judged()
    bench.upgrade()
    words = {
        play.inventory["all"]["vars"]["kubernetes_upgrade_id"]
        for play in bench.rack.plays
        if play.playbook == "kubernetes_upgrade"
    }
    assert len(words) == 1
    assert words.pop().isalnum()
    one, two = (UpgradeMark(NEW, f"2026-01-0{n}T00:00:00+00:00", "ada") for n in (1, 2))
    assert one.id != two.id
    assert replace(one, since="../../etc; reboot").id == "etcreboot"


def down(*names: str) -> Any:
    """The members of etcd, some of which are down."""

    def statuses(asked: Any) -> tuple[EtcdStatus, ...] | Silence:
        return tuple(
            EtcdStatus(node.name, node.name not in names, f"{n:x}", "2", 7, "3.5.1", 1 << 20)
            for n, node in enumerate(asked, 1)
        )

    return statuses


def until(bench: Bench, action: str, *names: str) -> None:
    """Members of etcd are down until kubeadm has run there."""

    def statuses(asked: Any) -> tuple[EtcdStatus, ...] | Silence:
        left = [name for name in names if f"{action} {name}" not in bench.rack.done]
        found: tuple[EtcdStatus, ...] | Silence = down(*left)(asked)
        return found

    evidence_of(bench).statuses = statuses  # type: ignore[method-assign]


def test_a_control_plane_whose_etcd_is_down_goes_on_with_the_snapshot_on_record() -> None:
    bench = judged(masters=3)
    bench.upgrade(pause_after="cp1")
    # Out first, as it is half-way: its kubeadm brings its etcd back.
    until(bench, "node", "cp2")
    assert bench.upgrade().ended
    assert len(snapshots(bench)) == 1


def test_the_next_control_plane_waits_until_etcd_is_whole_again() -> None:
    bench = judged(masters=3)
    statuses = evidence_of(bench).statuses
    evidence_of(bench).statuses = lambda asked: (  # type: ignore[method-assign]
        down("cp2")(asked) if "apply cp2" in bench.rack.done else statuses(asked)
    )
    with pytest.raises(StepNotVerified, match="cp2: its etcd is not healthy"):
        bench.upgrade()
    assert "kubelet cp2" not in bench.rack.done
    assert not any(what in bench.rack.done for what in ("node cp1", "node cp3"))
    evidence_of(bench).statuses = statuses  # type: ignore[method-assign]
    assert bench.upgrade().ended


def test_without_one_on_record_it_is_saved_where_etcd_runs() -> None:
    bench = judged(masters=3)
    bench.upgrade(pause_after="cp2")
    text = UpgradeMark(NEW, "2026-01-01T00:00:00+00:00", "ada on laptop").as_text()
    bench.rack.annotate([f"cp{n}" for n in (1, 2, 3)], "appliance.dev/upgrade", text)
    until(bench, "node", "cp3")
    assert bench.upgrade().ended
    assert snapshots(bench)[1:] == ["snapshot cp1 upgrade"]


def test_while_one_etcd_is_down_no_other_control_plane_is_touched() -> None:
    bench = judged(masters=3)
    bench.upgrade(pause_after="cp2")
    evidence_of(bench).statuses = down("cp2")  # type: ignore[method-assign]
    before = [what for what in bench.rack.done if what.startswith(("apply", "node cp"))]
    with pytest.raises(ClusterError, match="cp1 was not touched, because cp2: its etcd"):
        bench.upgrade()
    after = [what for what in bench.rack.done if what.startswith(("apply", "node cp"))]
    assert (before, after) == (["apply cp2"], ["apply cp2"])
    assert bench.cordoned == []


def test_etcds_leader_comes_last() -> None:
    bench = judged(masters=3)
    evidence_of(bench).statuses = down()  # type: ignore[method-assign]
    assert bench.upgrade().ended
    steps = [what for what in bench.rack.done if what.startswith(("apply", "node cp"))]
    assert steps == ["apply cp1", "node cp3", "node cp2"]


def test_while_no_etcd_can_be_asked_no_control_plane_is_touched() -> None:
    bench = judged(masters=3)
    bench.upgrade(pause_after="cp2")

    def nobody(asked: Any) -> tuple[EtcdStatus, ...] | Silence:
        return Silence("; ".join(f"{node.name}: no answer" for node in asked))

    evidence_of(bench).statuses = nobody  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="was not touched, because etcd: cp1: no answer"):
        bench.upgrade()
    assert not any(what.startswith("node cp") for what in bench.rack.done)
    assert bench.cordoned == []


@pytest.mark.parametrize("masters", [1, 3])
def test_a_control_plane_changes_its_runtime_only_with_a_snapshot(masters: int) -> None:
    bench = judged(masters=masters, to=NEXT)
    while "runtime cp1" not in bench.rack.done:
        bench.upgrade(pause_after="cp1")
    assert len(snapshots(bench)) == 2
    assert mark(bench).snapshot_of(NEXT)


def test_a_container_that_is_no_pod_stops_it_before_any_node_is_emptied() -> None:
    bench = judged(to=NEXT)
    bench.rack.documents["w2"]["runtime"]["docker"]["foreign_running"] = ["gitlab"]
    with pytest.raises(PreflightFailed, match=r"w2: docker: found gitlab"):
        bench.upgrade()
    assert bench.rack.done == []
    assert bench.chosen == []
    bench.rack.documents["w2"]["runtime"]["docker"]["foreign_running"] = []
    assert not bench.upgrade(pause_after="w1").ended
    bench.rack.documents["w2"]["runtime"]["docker"]["foreign_running"] = ["gitlab"]
    before = list(bench.rack.done)
    with pytest.raises(PreflightFailed, match=r"w2: docker: found gitlab"):
        bench.upgrade()
    assert bench.rack.done == before
    assert bench.cordoned == []


@pytest.mark.parametrize(("thinks", "stops"), [(5.0, False), (3600.0, True)])
def test_after_a_late_answer_everything_is_judged_again(thinks: float, stops: bool) -> None:
    bench = judged()

    def answer(_found: object) -> bool:
        bench.clock.sleep(thinks)
        evidence_of(bench).uses = Silence("metrics: status 403")
        return True

    if stops:
        with pytest.raises(PreflightFailed, match="metrics: status 403"):
            bench.upgrade(confirm=answer)
        assert (bench.rack.done, bench.chosen, mark_of(bench.rack.cluster)) == ([], [], None)
    else:
        assert bench.upgrade(confirm=answer).ended


def test_a_late_answer_to_a_cluster_as_it_was_goes_on() -> None:
    bench = judged()

    def answer(_found: object) -> bool:
        bench.clock.sleep(3600)
        return True

    assert bench.upgrade(confirm=answer).ended
