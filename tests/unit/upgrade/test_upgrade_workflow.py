"""The workflow: marks, order, proof after each step; refused, failed, killed and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from appliance.errors import (
    BundleRefused,
    ClusterError,
    Interrupted,
    NodeUnreachable,
    PlaybookFailed,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.plan.planner import plan
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.cluster.pods import Budget
from appliance.model.state.observed import Fault, Observed
from appliance.model.state.upgrade import ANNOTATION, mark_of
from appliance.model.upgrade.evidence import DeprecatedUse, Silence
from tests import samples
from tests.fakes import FakeBundle
from tests.unit.upgrade import gate_scene
from tests.unit.upgrade.handmade import KUBELET
from tests.unit.upgrade.rack import NEW, OLD, TAG, Bench, FakeEvidence, web


def test_the_control_plane_comes_first_and_nothing_stays_cordoned() -> None:
    bench = Bench()
    bench.drain.pods["w1"] = [web("w1")]
    done = bench.upgrade()
    assert (done.done, done.ended) == (True, True)
    assert bench.rack.done == [
        *("artifacts", "kubernetes_images", "apply cp1", "kubelet cp1"),
        *("evict web-1", "node w1", "kubelet w1", "node w2", "kubelet w2"),
    ]
    assert bench.cordoned == []
    assert {node.version for node in bench.rack.api.nodes.values()} == {TAG}
    assert bench.chosen == [NEW]
    assert mark_of(bench.rack.cluster) is None


def test_every_record_has_a_number_of_its_own_and_is_verified() -> None:
    bench = Bench()
    bench.upgrade()
    numbers = [record.sequence for record in bench.journal.records]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {record.outcome for record in bench.journal.records} == {"verified"}
    assert bench.steps[:3] == ["artifacts", "kubernetes_images", "upgrade: control plane"]


def test_the_second_and_third_control_plane_follow_by_node() -> None:
    bench = Bench(masters=3, workers=1)
    bench.upgrade()
    assert [what for what in bench.rack.done if not what.startswith("evict")] == [
        *("artifacts", "kubernetes_images", "apply cp1", "kubelet cp1"),
        *("node cp2", "kubelet cp2", "node cp3", "kubelet cp3", "node w1", "kubelet w1"),
    ]


def test_a_batch_is_cordoned_before_the_first_pod_moves() -> None:
    bench = Bench(workers=3)
    bench.drain.pods["w1"] = [web("w1")]
    seen: list[list[str]] = []
    evict = bench.drain.evict
    bench.drain.evict = lambda pod: seen.append(bench.cordoned) or evict(pod)  # type: ignore[func-returns-value,method-assign]
    bench.upgrade(max_unavailable=2)
    assert seen == [["w1", "w2"]]
    assert bench.cordoned == []


def test_a_dry_run_changes_nothing_and_shows_who_is_evicted() -> None:
    bench = Bench()
    bench.drain.pods["w1"] = [web("w1")]
    found = bench.upgrade(dry_run=True)
    assert (bench.rack.plays, bench.chosen, bench.asked) == ([], [], [])
    assert [pod.name for pod in found.forecasts["w1"].evicted] == ["web-1"]
    assert found.plan.steps[0].kind == "artifacts"
    assert bench.journal.records == []


def test_without_a_yes_nothing_is_changed() -> None:
    bench = Bench()
    bench.answer = False
    with pytest.raises(Refused):
        bench.upgrade()
    assert (bench.rack.plays, bench.chosen, mark_of(bench.rack.cluster)) == ([], [], None)


def test_a_second_run_finds_nothing_to_do() -> None:
    bench = Bench()
    bench.upgrade()
    again = bench.upgrade()
    assert (again.done, again.plan.steps, len(bench.asked)) == (False, (), 1)


def test_a_run_that_goes_on_keeps_the_release_of_before() -> None:
    bench = Bench()
    bench.upgrade(pause_after="cp1")
    bench.upgrade(pause_after="w1")
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert mark.before == OLD, "site.yml has the new release by now"


def test_a_pause_leaves_the_mark_and_the_same_command_goes_on() -> None:
    bench = Bench()
    done = bench.upgrade(pause_after="cp1")
    assert (done.done, done.ended, done.plan.paused_after) == (True, False, "cp1")
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    # A restore takes a backup of the release of before, while no node has the new one.
    assert (mark.release, mark.before, mark.over) == (NEW, OLD, False)
    assert bench.cordoned == []
    assert bench.upgrade().ended
    assert bench.rack.done[4:] == [
        *("kubernetes_images", "node w1", "kubelet w1", "node w2", "kubelet w2"),
    ]
    assert mark_of(bench.rack.cluster) is None


def test_while_it_is_under_way_an_install_is_refused_and_told_why() -> None:
    bench = Bench()
    bench.upgrade(pause_after="cp1")
    look = bench.rack.look(bench.desired.site.nodes)
    found = plan(bench.desired, Observed(look.node_facts, bench.rack.cluster))
    assert [(one.node, one.check) for one in found.refusals] == [("cp1", "upgrade")]
    assert found.refusals[0].hint == f"appliance cluster upgrade --to {NEW}"
    assert found.warnings[0].text.startswith(f"an upgrade to {NEW} is under way since")


def test_a_node_that_fails_stays_out_and_the_rest_stops() -> None:
    bench = Bench()
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: kubeadm ended with 1")
    with pytest.raises(PlaybookFailed) as failed:
        bench.upgrade()
    assert failed.value.details[-1].startswith("w1 stays out of service")
    assert bench.cordoned == ["w1"]
    assert "node w2" not in bench.rack.done
    assert bench.upgrade().ended
    assert bench.cordoned == []


def test_of_a_batch_the_nodes_that_succeeded_are_back() -> None:
    bench = Bench(workers=3)
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: kubeadm ended with 1")
    with pytest.raises(PlaybookFailed):
        bench.upgrade(max_unavailable=2)
    assert bench.cordoned == ["w1"]
    assert bench.rack.api.nodes["w2"].version == TAG
    assert bench.rack.api.nodes["w3"].version != TAG


def test_of_a_batch_that_failed_a_node_that_is_ready_a_minute_later_is_back() -> None:
    bench = Bench(workers=3)
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: kubeadm ended with 1")
    play, slept = bench.rack.play, bench.clock.sleep
    ready_at = [0.0]

    def set_ready(ready: bool) -> None:
        nodes = bench.rack.api.nodes
        bench.rack.cluster = replace(
            bench.rack.api, nodes={**nodes, "w2": replace(nodes["w2"], ready=ready)}
        )

    def failing(*words: object) -> None:
        try:
            play(*words)  # type: ignore[arg-type]
        except PlaybookFailed:
            ready_at[0] = bench.clock.now() + 60
            set_ready(False)
            raise

    def sleep(seconds: float) -> None:
        slept(seconds)
        if ready_at[0] and bench.clock.now() >= ready_at[0]:
            set_ready(True)

    bench.rack.play = failing  # type: ignore[assignment,method-assign]
    bench.clock.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(PlaybookFailed) as caught:
        bench.upgrade(max_unavailable=2)
    assert caught.value.details[-1].startswith("w1 stays out of service")
    assert bench.cordoned == ["w1"]
    assert bench.rack.api.nodes["w2"].version == TAG


def test_a_pod_that_no_budget_lets_go_refuses_before_the_first_change() -> None:
    bench = Bench()
    bench.drain.pods["w2"] = [web("w2")]
    bench.drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0)]
    with pytest.raises(PreflightFailed, match="PodDisruptionBudget web"):
        bench.upgrade()
    assert (bench.rack.plays, bench.chosen) == ([], [])


def test_a_budget_that_closes_later_gives_the_node_back() -> None:
    bench = Bench(workers=3)
    bench.drain.pods["w2"] = [web("w2")]
    close = Budget("team", "web", frozenset({"team/web-1"}), 0)
    asked = bench.rack.play

    def play(*words: object) -> None:
        bench.drain.budgets = [close]
        asked(*words)  # type: ignore[arg-type]

    bench.rack.play = play  # type: ignore[assignment,method-assign]
    with pytest.raises(StepNotVerified, match="has allowed no disruption"):
        bench.upgrade(max_unavailable=2)
    assert bench.cordoned == []
    assert bench.rack.api.nodes["w1"].version != TAG


def test_a_node_that_was_cordoned_by_hand_stays_cordoned() -> None:
    bench = Bench()
    nodes = bench.rack.api.nodes
    bench.rack.cluster = replace(
        bench.rack.api, nodes={**nodes, "w1": replace(nodes["w1"], unschedulable=True)}
    )
    assert bench.upgrade().ended
    assert bench.cordoned == ["w1"]
    assert bench.rack.api.nodes["w1"].version == TAG


def test_an_api_that_is_away_is_waited_for_then_named() -> None:
    bench = Bench()
    bench.rack.cluster = Unreachable("nobody answers")
    began = bench.clock.now()
    with pytest.raises(NodeUnreachable, match="no Kubernetes API server answers"):
        bench.upgrade()
    assert bench.clock.now() - began >= 90


def test_the_bundle_of_another_release_is_refused() -> None:
    bench = Bench()
    bench.desired = replace(bench.desired, manifest=samples.manifest())
    bench.bundle = FakeBundle(samples.manifest())
    with pytest.raises(BundleRefused, match=f"expected the bundle of {NEW}"):
        bench.upgrade()
    assert bench.chosen == []


def test_without_a_bundle_it_is_refused() -> None:
    bench = Bench()
    bench.desired, bench.bundle = replace(bench.desired, manifest=None), None
    with pytest.raises(BundleRefused, match="found no bundle"):
        bench.upgrade()


def test_a_worker_that_is_left_out_is_a_debt_until_it_has_the_release() -> None:
    bench = Bench()
    bench.rack.faults["w2"] = Fault("w2", "w2: no answer on port 22", "ping it")
    with pytest.raises(PreflightFailed, match="no answer on port 22"):
        bench.upgrade()
    assert bench.upgrade(without=("w2",)).ended
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert (mark.over, mark.without) == (True, ("w2",))
    assert mark.sentence() == f"upgraded to {NEW} without w2"
    bench.rack.faults.clear()
    assert bench.upgrade().ended
    assert bench.rack.done[-2:] == ["node w2", "kubelet w2"]
    assert ANNOTATION not in bench.rack.api.nodes["cp1"].annotations


def test_the_play_gets_each_nodes_part() -> None:
    bench = Bench()
    bench.upgrade()
    plays = [play for play in bench.rack.plays if play.playbook == "kubernetes_images"]
    assert plays[0].limit == ("cp1", "w1", "w2")
    assert plays[0].inventory["all"]["vars"]["kubernetes_upgrade_version"] == "1.23.17"


def test_a_pause_that_is_asked_for_waits_for_the_end_of_the_step() -> None:
    bench = Bench()
    asked = iter([False, False, False, True])

    @contextmanager
    def pausing() -> Iterator[Callable[[], bool]]:
        yield lambda: next(asked)

    with pytest.raises(
        Interrupted, match=r"paused before: out of service, .*: cp1; no node is out"
    ):
        bench.upgrade(pausing=pausing)
    assert bench.rack.done == ["artifacts", "kubernetes_images", "apply cp1"]
    assert bench.cordoned == []
    assert bench.upgrade().ended


def judged(masters: int = 1, to: str = NEW) -> Bench:
    """A rack of which everything is known, and a cluster that is asked."""
    bench = Bench(masters, to=to)
    for name, found in gate_scene.facts_of(bench.desired.site).items():
        document = bench.rack.documents[name]
        document["clock"] |= {"synchronised": True, "offset_seconds": 0.01}
        size = {"size_bytes": 1 << 40, "free_inodes_percent": 90}
        document["filesystems"] = [one | size for one in found["filesystems"]]
        document["kubernetes"]["pki"] += found["kubernetes"]["pki"]
        document["kubernetes"]["etcd_data"] = found["kubernetes"]["etcd_data"]
    bench.evidence = FakeEvidence(bench.rack)
    return bench


def test_go_or_no_go_is_judged_before_the_first_change() -> None:
    bench = judged()
    found = bench.upgrade(dry_run=True)
    assert [gate.sentence() for gate in found.gates if gate.stops] == []
    assert {gate.name for gate in found.gates} > {"bundle", "etcd", "dropped", "snapshot"}
    assert bench.rack.done == []


def test_one_no_go_refuses_everything() -> None:
    bench = judged()
    assert bench.evidence is not None
    bench.evidence.uses = (DeprecatedUse("policy", "v1beta1", "pdb", "1.23"),)
    with pytest.raises(PreflightFailed, match="policy/v1beta1 pdb"):
        bench.upgrade()
    assert (bench.rack.done, bench.chosen) == ([], [])


def test_what_is_not_known_is_no_go_either() -> None:
    bench = judged()
    assert bench.evidence is not None
    bench.evidence.uses = Silence("metrics: status 403")
    with pytest.raises(PreflightFailed, match=r"no answer \(metrics: status 403\)"):
        bench.upgrade()


def test_a_snapshot_is_restored_once_before_anything_is_written() -> None:
    bench = judged()
    assert bench.evidence is not None
    bench.evidence.fails = ClusterError("cp1: the snapshot was not restored")
    with pytest.raises(ClusterError):
        bench.upgrade()
    assert bench.rack.done == ["snapshot cp1 upgrade"]
    assert (bench.chosen, mark_of(bench.rack.cluster)) == ([], None)
    bench.evidence.fails = None
    assert bench.upgrade().ended
    assert bench.rack.done[:2] == ["snapshot cp1 upgrade"] * 2


def test_an_upgrade_that_is_under_way_is_not_judged_again() -> None:
    bench = judged()
    assert bench.evidence is not None
    bench.upgrade(pause_after="cp1")
    bench.evidence.uses = Silence("metrics: status 403")
    assert bench.upgrade().ended
    assert bench.rack.done.count("snapshot cp1 upgrade") == 1


def test_what_the_site_file_holds_is_carried_and_the_rest_refuses_until_it_is_given_up() -> None:
    bench = judged()
    assert bench.evidence is not None
    bench.evidence.kubelets = {"maxPods": 200}
    with pytest.raises(PreflightFailed, match=r"kubelet\.maxPods on cp1, w1, w2 is 200"):
        bench.upgrade()
    assert bench.evidence.carried == []
    bench.desired = replace(
        bench.desired,
        site=samples.site(1, 2, appliance_release=NEW, kubernetes={"kubelet": {"maxPods": 200}}),
    )
    assert bench.upgrade().ended
    assert bench.evidence.carried == [({**KUBELET, "maxPods": 200}, None)]


def test_a_node_of_ours_that_is_out_refuses_no_eviction_of_the_next() -> None:
    bench = Bench()
    bench.drain.pods["w2"] = [web("w2")]
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: killed")
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    assert bench.cordoned == ["w1"]
    cp1 = bench.rack.api.nodes["cp1"]
    tainted = replace(cp1, taints=("node-role.kubernetes.io/master=:NoSchedule",))
    bench.rack.cluster = replace(bench.rack.api, nodes={**bench.rack.api.nodes, "cp1": tainted})
    assert bench.upgrade().ended
    assert bench.rack.done[-3:] == ["evict web-1", "node w2", "kubelet w2"]
