"""The worst that an upgrade could do: what is left out, put back, stale, or only half written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import (
    ClusterError,
    Interrupted,
    PlaybookFailed,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.pods import Budget
from appliance.model.state.upgrade import ANNOTATION, UpgradeMark, mark_of
from tests.unit.upgrade.rack import TAG, Bench, web
from tests.unit.upgrade.situations import maintenance


def changed(bench: Bench, name: str, **changes: object) -> None:
    nodes = bench.rack.api.nodes
    node: ClusterNode = replace(nodes[name], **changes)  # type: ignore[arg-type]
    bench.rack.cluster = replace(bench.rack.api, nodes={**nodes, name: node})


@pytest.mark.parametrize(("masters", "name"), [(1, "cp1"), (3, "cp1"), (3, "cp2")])
def test_no_control_plane_is_left_out_by_name(masters: int, name: str) -> None:
    bench = Bench(masters=masters)
    with pytest.raises(PreflightFailed, match=f"{name}: .*--without with a control-plane node"):
        bench.upgrade(without=(name,))
    assert (bench.rack.plays, bench.chosen, mark_of(bench.rack.cluster)) == ([], [], None)


def test_the_services_node_is_not_left_out_by_name() -> None:
    bench = Bench()
    site = bench.desired.site
    moved = {"cp1": {"control_plane"}, "w1": {"cpu_workers", "services"}}
    nodes = [replace(n, groups=frozenset(moved.get(n.name, n.groups))) for n in site.nodes]
    bench.desired = replace(bench.desired, site=replace(site, nodes=tuple(nodes)))
    with pytest.raises(PreflightFailed, match=r"w1: .*--without with the services node"):
        bench.upgrade(without=("w1",))
    assert bench.rack.plays == []


def test_a_node_left_out_by_name_is_judged_by_what_runs_there() -> None:
    bench = Bench()
    changed(bench, "w2", version="v1.20.1")
    with pytest.raises(PreflightFailed, match=r"w2: .*too old for the API server"):
        bench.upgrade(without=("w2",))


def test_a_node_that_failed_before_is_not_put_back_when_its_batch_fails() -> None:
    bench = Bench(workers=3)
    for name in ("w1", "w2"):
        bench.rack.fail_on[name] = PlaybookFailed(f"{name}: kubeadm ended with 1")
    with pytest.raises(PlaybookFailed):
        bench.upgrade(max_unavailable=2)
    assert bench.cordoned == ["w1", "w2"]
    bench.drain.pods["w2"] = [web("w2")]
    bench.drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0)]
    with pytest.raises(StepNotVerified, match="has allowed no disruption") as stopped:
        bench.upgrade(max_unavailable=2)
    assert bench.cordoned == ["w1", "w2"]
    assert any(line.startswith("w1 stays out of service") for line in stopped.value.details)


def test_what_another_laptop_did_meanwhile_is_not_done_twice() -> None:
    bench = Bench()
    other = bench.rack

    def slow(_found: object) -> bool:
        for name in ("cp1", "w1", "w2"):
            other._kubeadm(name, "apply" if name == "cp1" else "node")
            changed(bench, name, version=TAG)
        return True

    before = list(bench.rack.done)
    with pytest.raises(Refused, match="changed since"):
        bench.upgrade(confirm=slow)
    assert bench.rack.plays == []
    assert (bench.chosen, mark_of(bench.rack.cluster), before) == ([], None, [])


def test_a_maintenance_that_began_meanwhile_is_not_ended_by_the_upgrade() -> None:
    bench = Bench()
    mark = maintenance("new riser")

    def slow(_found: object) -> bool:
        changed(bench, "w1", annotations={"appliance.dev/maintenance": mark.as_text()})
        return True

    with pytest.raises(Refused, match="changed since"):
        bench.upgrade(confirm=slow)
    assert bench.rack.plays == []


def test_a_site_file_that_cannot_be_written_leaves_no_mark() -> None:
    bench = Bench()

    def closed(_release: str) -> None:
        raise Refused("site.yml could not be written")

    with pytest.raises(Refused):
        bench.upgrade(choose_release=closed)
    assert (bench.rack.plays, mark_of(bench.rack.cluster)) == ([], None)


def test_a_refusal_in_the_middle_does_not_say_that_nothing_was_changed() -> None:
    bench = Bench()
    bench.drain.pods["w1"] = [web("w1")]
    play = bench.rack.play

    def then_alone(*words: object) -> None:
        play(*words)  # type: ignore[arg-type]
        for name in ("cp1", "w2"):
            changed(bench, name, ready=name != "w2", taints=("master:NoSchedule",))

    bench.rack.play = then_alone  # type: ignore[assignment,method-assign]
    with pytest.raises(Exception, match=r"no other node|not Ready") as stopped:
        bench.upgrade()
    assert getattr(stopped.value, "exit_code", None) == 1


def test_a_batch_that_leaves_no_node_for_its_pods_is_made_smaller() -> None:
    bench = Bench(workers=2)
    changed(bench, "cp1", taints=("node-role.kubernetes.io/master=:NoSchedule",))
    bench.drain.pods["w1"] = [web("w1")]
    found = bench.upgrade(max_unavailable=50)
    assert found.ended
    out = [step for step in found.plan.steps if step.nodes[:1] in (("w1",), ("w2",))]
    assert [(step.nodes, "batch of 1 instead of 2" in step.bound) for step in out] == [
        (("w1",), True),
        (("w2",), False),
    ]


def test_the_last_node_for_its_pods_refuses_before_the_first_change() -> None:
    bench = Bench(workers=1)
    changed(bench, "cp1", taints=("node-role.kubernetes.io/master=:NoSchedule",))
    bench.drain.pods["w1"] = [web("w1")]
    with pytest.raises(PreflightFailed, match="no other node can take its pods"):
        bench.upgrade(max_unavailable=50)
    assert (bench.rack.plays, bench.chosen) == ([], [])


def test_a_budget_of_one_that_covers_two_nodes_of_a_batch_is_no_surprise() -> None:
    bench = Bench(workers=3)
    bench.drain.pods["w1"] = [web("w1")]
    assert bench.upgrade(max_unavailable=2).ended


@pytest.mark.parametrize("text", ["{", '{"release": 7}', '{"schema": 9, "to": "later"}'])
def test_a_mark_that_cannot_be_read_refuses_every_change(text: str) -> None:
    bench = Bench()
    changed(bench, "cp1", annotations={ANNOTATION: text})
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert not mark.over
    assert "cannot be read" in mark.sentence()
    with pytest.raises(PreflightFailed, match="cannot be read"):
        bench.upgrade()
    assert bench.rack.plays == []


def test_a_mark_runs_nothing_when_its_hint_is_pasted() -> None:
    mark = UpgradeMark("x; reboot", "2026", "ada")
    assert mark.command == "appliance cluster upgrade --to 'x; reboot'"


def test_a_worker_that_claims_a_new_kube_proxy_ends_no_apply() -> None:
    bench = Bench()
    tag = {"cp1": ("kube-apiserver", "kube-controller-manager", "kube-scheduler")}
    pods = tuple(
        replace(pod, images=(f"r/{pod.app}:{TAG}",))
        if pod.app in tag.get(pod.node or "", ()) or (pod.app, pod.node) == ("kube-proxy", "w1")
        else pod
        for pod in bench.rack.api.pods
    )
    bench.rack.cluster = replace(bench.rack.api, pods=pods)
    assert bench.upgrade().ended
    assert "apply cp1" in bench.rack.done


def test_a_pause_names_the_node_that_an_earlier_run_left_out() -> None:
    bench = Bench()
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: kubeadm ended with 1")
    with pytest.raises(PlaybookFailed):
        bench.upgrade()

    @contextmanager
    def pausing() -> Iterator[Callable[[], bool]]:
        yield lambda: True

    with pytest.raises(Interrupted, match="still out of service: w1"):
        bench.upgrade(pausing=pausing)


def test_a_kill_between_the_mark_and_the_site_file_is_resumed_from_any_laptop() -> None:
    bench = Bench()

    def killed(_release: str) -> None:
        raise SystemExit(9)

    with pytest.raises(SystemExit):
        bench.upgrade(choose_release=killed)
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert (mark.over, bench.rack.plays) == (False, [])
    assert bench.upgrade().ended
    assert bench.chosen == [mark.release]


def test_the_pods_of_two_hundred_nodes_are_listed_once() -> None:
    bench = Bench(masters=3, workers=200)
    found = bench.upgrade(dry_run=True, max_unavailable=10)
    assert (len(found.forecasts), bench.drain.listed) == (203, 1)


def test_a_return_whose_answer_was_lost_is_not_another_command() -> None:
    bench = Bench()
    clear = bench.drain.clear
    lost: list[str] = []

    def once(node: str, **words: Any) -> None:
        clear(node, **words)
        if not lost:
            lost.append(node)
            raise ClusterError("the API server went away before it answered")

    bench.drain.clear = once  # type: ignore[method-assign]
    assert bench.upgrade().ended
    assert (lost, bench.cordoned) == (["cp1"], [])


@pytest.mark.parametrize(
    "names", [{"kubelet.a\nb"}, {"kubelet." + "x" * 1000}, {f"kubelet.{n:0990}" for n in range(70)}]
)
def test_a_name_that_would_make_the_mark_unreadable_is_refused(names: set[str]) -> None:
    bench = Bench()
    with pytest.raises(Refused, match="--accept-loss"):
        bench.upgrade(accepted=frozenset(names))
    assert (bench.rack.plays, bench.chosen, mark_of(bench.rack.cluster)) == ([], [], None)
    assert bench.upgrade(accepted=frozenset({"kubelet.maxPods"})).ended
