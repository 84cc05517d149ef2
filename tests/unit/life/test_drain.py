"""The forecast of a maintenance, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.node.drain import forecast
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.cluster.pods import Budget, PodOnNode, Toleration
from appliance.model.state.nodes.maintenance import ANNOTATION, TAINT
from appliance.model.state.nodes.roles import SYSTEM_LABEL

REPLICAS = ("ReplicaSet", "web-5d")
EVERY = (Toleration(operator="Exists"),)
NO_SCHEDULE = (Toleration(operator="Exists", effect="NoSchedule"),)


def node(name: str, *, system: bool = False, ready: bool = True, **more: Any) -> ClusterNode:
    return ClusterNode(name, ready, labels={SYSTEM_LABEL: ""} if system else {}, **more)


NODES = (
    node("cp1", control_plane=True, taints=("node-role.kubernetes.io/master=:NoSchedule",)),
    node("w1", devices={"nvidia.com/gpu": 2}),
    node("w2", devices={"nvidia.com/gpu": 4}),
)


def pod(name: str = "web-5d-x", **more: Any) -> PodOnNode:
    values: dict[str, Any] = {"owner": REPLICAS, "siblings": 1, **more}
    return PodOnNode(values.pop("namespace", "team"), name, "w1", **values)


def _said(
    pods: Sequence[PodOnNode] = (),
    budgets: Sequence[Budget] = (),
    nodes: Sequence[ClusterNode] = NODES,
    name: str = "w1",
) -> list[tuple[str, str]]:
    return [(c.severity, c.sentence()) for c in forecast(name, pods, budgets, nodes).concerns]


@pytest.mark.parametrize(
    ("what", "stays"),
    [
        (pod(), False),
        (pod(owner=None), False),
        (pod(owner=("DaemonSet", "log")), True),
        (pod(mirror=True, owner=("Node", "w1")), True),
        (pod(phase="Succeeded"), True),
        (pod(phase="Failed", owner=None), True),
        (pod(phase="Pending"), False),
        (pod(owner=("StatefulSet", "db")), False),
        (pod(owner=("Job", "train")), False),
    ],
)
def test_who_is_evicted(what: PodOnNode, stays: bool) -> None:
    assert (forecast("w1", [what], (), NODES).evicted == ()) is stays


@pytest.mark.parametrize(
    ("tolerations", "tolerates"),
    [
        ((), False),
        (EVERY, True),
        (NO_SCHEDULE, False),
        ((Toleration("runai", "Exists"),), True),
        ((Toleration("runai", "Exists", "", "NoExecute"),), True),
        ((Toleration("runai", "Exists", "", "NoSchedule"),), False),
        ((Toleration("runai", "Equal", "drain", "NoExecute"),), True),
        ((Toleration("runai", "Equal", "else", "NoExecute"),), False),
        ((Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),), False),
    ],
)
def test_what_tolerates_the_guides_taint(tolerations: Any, tolerates: bool) -> None:
    assert pod(tolerations=tolerations).tolerates(TAINT) is tolerates


@pytest.mark.parametrize(
    ("daemon", "unfit", "ended"),
    [
        ({"app": "flannel", "tolerations": NO_SCHEDULE}, 1, 0),
        ({"app": "flannel", "tolerations": EVERY}, 0, 0),
        ({"namespace": "gpu-operator", "tolerations": NO_SCHEDULE}, 1, 0),
        ({"app": "fluentd"}, 0, 1),
        ({"app": "fluentd", "tolerations": EVERY}, 0, 0),
    ],
)
def test_daemons_that_the_taint_would_end(daemon: Any, unfit: int, ended: int) -> None:
    found = forecast("w1", [pod("d-x", owner=("DaemonSet", "d"), **daemon)], (), NODES)
    assert (len(found.unfit), len(found.ended_by_taint)) == (unfit, ended)


NOTEBOOK = "is an interactive job{} in project {}: it ends"
CONCERNS: list[tuple[str, PodOnNode, list[tuple[str, str]]]] = [
    ("one of two", pod(), []),
    (
        *("the only copy", pod(siblings=0)),
        [
            (
                "interrupts",
                "team/web-5d-x: is the only replica: unavailable until it runs on another node",
            )
        ],
    ),
    (
        *("a bare pod", pod("p", owner=None)),
        [("loses", "team/p: has no controller: it is not started again")],
    ),
    (
        *("data in emptyDir", pod(empty_dir=True)),
        [("loses", "team/web-5d-x: loses the data in its emptyDir")],
    ),
    (
        *("a volume on the node's disk", pod(pinned="its volume is here")),
        [("interrupts", "team/web-5d-x: can run on no other node: its volume is here")],
    ),
    (
        "somebody's interactive job",
        pod(
            "nb-0-0", namespace="runai-team-a", owner=("Job", "nb"), siblings=0, user="ada",
            labels={"priorityClassName": "build", "project": "team-a"},
        ),
        [("loses", f"runai-team-a/nb-0-0: {NOTEBOOK.format(' of ada', 'team-a')}")],
    ),
    (
        "an interactive job whose owner nobody knows",
        pod("nb-0-0", namespace="runai-b", labels={"priorityClassName": "build"}),
        [("loses", f"runai-b/nb-0-0: {NOTEBOOK.format('', 'b')}")],
    ),
    ("a training job", pod("t-0", owner=("Job", "t"), siblings=1, gpus=1), []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "said"), [pytest.param(*case[1:], id=case[0]) for case in CONCERNS]
)
def test_concerns_of_one_pod(what: PodOnNode, said: list[tuple[str, str]]) -> None:
    assert _said([what]) == said


def test_a_budget_without_room_blocks_and_names_its_owner() -> None:
    budget = Budget("team", "web", frozenset({"team/web-5d-x"}), 0, "minAvailable 2")
    assert _said([pod()], [budget]) == [
        (
            "blocks",
            "team/web-5d-x: PodDisruptionBudget web (minAvailable 2) allows no disruption now; "
            "the pod belongs to ReplicaSet web-5d",
        )
    ]
    assert _said([pod()], [replace(budget, allowed=1)]) == []
    assert _said([pod("other")], [budget]) == []


def test_a_pod_under_two_budgets_never_goes_and_both_are_named() -> None:
    one = Budget("team", "web", frozenset({"team/web-5d-x"}), 1)
    said = _said([pod()], [one, replace(one, name="all")])
    assert said == [
        (
            "blocks",
            "team/web-5d-x: is covered by 2 PodDisruptionBudgets (web, all): the eviction API "
            "refuses that until one of them is deleted",
        )
    ]


SILENT = {"ready": False}
NO_ETCD = {"etcd_ready": False}
MARKED = {"annotations": {ANNOTATION: "{}"}}
MASTERS = tuple(node(f"cp{i}", control_plane=True) for i in (1, 2, 3))


def _with_second(changes: dict[str, Any]) -> tuple[ClusterNode, ...]:
    return (MASTERS[0], replace(MASTERS[1], **changes), MASTERS[2])


@pytest.mark.parametrize(
    ("name", "nodes", "refused"),
    [
        ("w1", NODES, ""),
        ("cp1", NODES, "0 of 1 control-plane nodes would be left"),
        ("cp1", MASTERS, ""),
        ("cp1", _with_second(SILENT), "1 of 3 control-plane"),
        ("cp1", _with_second(NO_ETCD), "1 of 3 control-plane"),
        ("cp1", _with_second(MARKED), "1 of 3 control-plane"),
        ("w1", (node("w1", system=True), node("w2")), "the only working system node"),
        ("w1", (node("w1", system=True), node("w2", system=True)), ""),
        ("w1", (node("w1", system=True), node("w2", system=True, ready=False)), "only"),
        ("w1", (node("w1"), node("w2", unschedulable=True)), "no other node can take"),
    ],
)  # fmt: skip
def test_outages_are_refused(name: str, nodes: Any, refused: str) -> None:
    sentences = [
        text for severity, text in _said([pod()], (), nodes, name) if severity == "refuses"
    ]
    assert (refused in sentences[0]) if refused else sentences == []


def test_gpus_that_are_left_and_the_longest_grace() -> None:
    found = forecast("w1", [pod(grace_seconds=90), pod("b", grace_seconds=5)], (), NODES)
    assert (found.gpus_left, found.gpus_now, found.grace_seconds) == (4, 6, 90)


def test_slices_and_mig_devices_that_are_left_are_told_by_resource() -> None:
    mig, shared = "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"
    nodes = (node("w1", devices={mig: 7}), node("w2", devices={mig: 14, shared: 8}))
    found = forecast("w1", [], (), nodes)
    assert found.devices_now == {mig: 21, shared: 8}
    assert found.devices_left == {mig: 14, shared: 8}
    assert (found.gpus_left, found.gpus_now) == (0, 0)


def test_workloads_go_before_the_systems_own_pods() -> None:
    system = pod("coredns-1", namespace="kube-system")
    found = forecast("w1", [system, pod("b"), pod("a")], (), NODES)
    assert [p.name for p in found.evicted] == ["a", "b", "coredns-1"]
