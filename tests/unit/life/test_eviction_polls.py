"""While an eviction waits, it reads the pods of its own node and nothing else of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import (
    V1Container,
    V1Node,
    V1NodeSpec,
    V1NodeStatus,
    V1ObjectMeta,
    V1OwnerReference,
    V1Pod,
    V1PodSpec,
    V1PodStatus,
)

from appliance.adapters.kubernetes.nodes.drain import KubernetesDrain
from appliance.errors import ClusterError
from appliance.workflows.node.maintenance.eviction import Eviction
from tests.fakes import FakeClock, FakeObserver, run

GRACE = 20
OWNER = V1OwnerReference(
    api_version="apps/v1", controller=True, kind="ReplicaSet", name="web", uid="1"
)


def _pod(name: str, node: str) -> V1Pod:
    return V1Pod(
        metadata=V1ObjectMeta(name=name, namespace="team", owner_references=[OWNER]),
        spec=V1PodSpec(
            node_name=node,
            containers=[V1Container(name="c")],
            termination_grace_period_seconds=GRACE,
        ),
        status=V1PodStatus(phase="Running"),
    )


class Cluster:
    """An API server of two nodes and their pods, which counts what it is asked."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.asked: Counter[str] = Counter()
        self.nodes = ["w1", "w2"]
        self.ends: dict[str, float] = {}
        self.pods = {"web-1": "w1", **{f"web-{number}": "w2" for number in range(2, 40)}}

    @contextmanager
    def any_client(self) -> Iterator[Any]:
        yield None

    def list_node(self, **_: Any) -> Any:
        self.asked["nodes"] += 1
        made = [
            V1Node(metadata=V1ObjectMeta(name=name), spec=V1NodeSpec(), status=V1NodeStatus())
            for name in self.nodes
        ]
        return SimpleNamespace(items=made)

    def list_pod_for_all_namespaces(self, field_selector: str = "", **_: Any) -> Any:
        self.asked[f"pods {field_selector}".strip()] += 1
        here = [
            _pod(name, node)
            for name, node in self.pods.items()
            if self.ends.get(name, self.clock.now() + 1) > self.clock.now()
            and field_selector in ("", f"spec.nodeName={node}")
        ]
        return SimpleNamespace(items=here)

    def list_pod_disruption_budget_for_all_namespaces(self, **_: Any) -> Any:
        self.asked["budgets"] += 1
        return SimpleNamespace(items=[])

    def create_namespaced_pod_eviction(self, name: str, *_: Any, **__: Any) -> None:
        self.asked["evictions"] += 1
        self.ends.setdefault(name, self.clock.now() + GRACE)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    import kubernetes.client

    made = Cluster(FakeClock())
    core = SimpleNamespace(api_client=None)
    for name in dir(Cluster):
        if name.startswith(("list_", "create_")):
            setattr(core, name, getattr(made, name))
    monkeypatch.setattr(kubernetes.client, "CoreV1Api", lambda _: core)
    monkeypatch.setattr(kubernetes.client, "PolicyV1Api", lambda _: core)
    return made


def _eviction(cluster: Cluster) -> Eviction:
    drain = KubernetesDrain(cluster)  # type: ignore[arg-type]
    return Eviction(
        drain, cluster.clock, FakeObserver(), "drain", run("node remove"), lambda: None, 30
    )


def test_the_whole_cluster_is_read_at_the_start_and_at_the_end(cluster: Cluster) -> None:
    _eviction(cluster).evict("w1")
    assert cluster.asked["nodes"] == cluster.asked["pods"] == cluster.asked["budgets"] == 2
    # One a second, while the pod ends, and the last one that no longer finds it.
    assert cluster.asked["pods spec.nodeName=w1"] == GRACE


def test_a_node_that_leaves_the_cluster_meanwhile_is_not_called_empty(cluster: Cluster) -> None:
    def sleep(seconds: float) -> None:
        cluster.clock.time += seconds
        cluster.nodes, cluster.pods = ["w2"], {}

    cluster.clock.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="w1: found no such node"):
        _eviction(cluster).evict("w1")
