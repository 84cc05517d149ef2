"""Pods and nodes from the API's own documents, as a drain and a lost node are judged by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace as Thing
from typing import Any

import pytest
from kubernetes import client

from appliance.adapters.kubernetes.nodes.drain import KubernetesDrain
from appliance.adapters.kubernetes.nodes.lost import read_workloads
from appliance.adapters.kubernetes.objects import node_of
from appliance.errors import ApplianceError
from appliance.model.node.drain import forecast
from appliance.model.node.lost import losses

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _node(name: str, ready: str = "True", **labels: str) -> Any:
    condition = client.V1NodeCondition(type="Ready", status=ready, last_transition_time=NOW)
    return client.V1Node(
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        spec=client.V1NodeSpec(),
        status=client.V1NodeStatus(conditions=[condition], allocatable={"nvidia.com/gpu": "2"}),
    )


def _pod(name: str, node: str, *, ready: bool = True, ending: bool = False, **more: Any) -> Any:
    owner = client.V1OwnerReference(
        api_version="apps/v1", controller=True, kind="ReplicaSet", name="web", uid="1"
    )
    meta = {"namespace": "team", "owner_references": [owner], **more.pop("meta", {})}
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, deletion_timestamp=NOW if ending else None, **meta),
        spec=client.V1PodSpec(node_name=node, containers=[client.V1Container(name="c")], **more),
        status=client.V1PodStatus(
            phase="Running",
            conditions=[client.V1PodCondition(type="Ready", status=str(ready))],
        ),
    )


def _etcd(node: str, *, ready: bool) -> Any:
    meta = {"namespace": "kube-system", "labels": {"component": "etcd"}, "owner_references": []}
    return _pod(f"etcd-{node}", node, ready=ready, meta=meta)


class Api:
    """An API server with these nodes, pods and volumes."""

    def __init__(self, nodes: list[Any], pods: list[Any], volumes: list[Any] = []) -> None:  # noqa: B006
        self.listed = {"list_node": nodes, "list_pod_for_all_namespaces": pods}
        self.listed["list_persistent_volume"] = volumes
        self.leases: list[Any] = []
        self.api_client = None

    @contextmanager
    def any_client(self) -> Iterator[Any]:
        yield self

    def __getattr__(self, name: str) -> Any:
        def answer(*_: Any, **__: Any) -> Any:
            return Thing(items=self.leases if "lease" in name else self.listed.get(name, []))

        answer.__name__ = name
        return answer


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(api: Api) -> Api:
        for kind in ("CoreV1Api", "PolicyV1Api", "StorageV1Api", "CoordinationV1Api"):
            monkeypatch.setattr(client, kind, lambda _: api)
        return api

    return put


def test_a_pod_that_was_asked_to_end_is_no_other_copy(serve: Any) -> None:
    pods = [_pod("web-1", "w1"), _pod("web-2", "w2", ending=True), _pod("web-3", "w2", ready=False)]
    drain = KubernetesDrain(serve(Api([_node("w1"), _node("w2")], pods)))
    (pod,) = drain.view("w1").pods
    assert (pod.where, pod.siblings, pod.owner) == ("team/web-1", 0, ("ReplicaSet", "web"))
    pods.append(_pod("web-4", "w2"))
    assert drain.view("w1").pods[0].siblings == 1


def test_several_nodes_are_told_as_each_of_them(serve: Any) -> None:
    names = ("cp1", "w1", "w2")
    pods = [_pod(f"web-{n}", name) for n, name in enumerate(("w1", "w1", "w2"))]
    pods.append(_etcd("cp1", ready=False))
    drain = KubernetesDrain(serve(Api([_node(name) for name in names], pods)))
    assert drain.views(names) == {name: drain.view(name) for name in names}
    assert [pod.siblings for pod in drain.views(names)["w2"].pods] == [2]
    with pytest.raises(ApplianceError, match="w9: found no such node"):
        drain.views(["w1", "w9"])


def test_a_volume_on_the_nodes_disk_pins_its_pod(serve: Any) -> None:
    source = client.V1PersistentVolumeClaimVolumeSource(claim_name="data")
    volume = client.V1Volume(name="v", persistent_volume_claim=source)
    disk = Thing(
        metadata=Thing(name="pv-1"),
        spec=Thing(
            claim_ref=Thing(namespace="team", name="data"),
            host_path=Thing(path="/srv"),
            local=None,
            node_affinity=None,
        ),
    )
    pods = [_pod("web-1", "w1", volumes=[volume]), _pod("web-2", "w1")]
    view = KubernetesDrain(serve(Api([_node("w1")], pods, [disk]))).view("w1")
    assert [pod.pinned for pod in view.pods] == ["its volume pv-1 is on this node's disk", ""]


@pytest.mark.parametrize(("ready", "refused"), [(True, False), (False, True)])
def test_a_node_whose_etcd_is_not_ready_does_not_count_for_the_quorum(
    serve: Any, ready: bool, refused: bool
) -> None:
    label = {"node-role.kubernetes.io/control-plane": ""}
    names = ("cp1", "cp2", "cp3")
    pods = [_etcd(name, ready=ready or name != "cp2") for name in names]
    view = KubernetesDrain(serve(Api([_node(n, **label) for n in names], pods))).view("cp1")
    assert [node.etcd_ready for node in view.nodes] == [True, ready, True]
    found = forecast("cp1", view.pods, view.budgets, view.nodes)
    assert bool(found.by("refuses")) is refused
    assert (found.gpus_left, found.gpus_now) == (4, 6)


def test_a_lost_node_is_read_with_its_heartbeat_and_its_pods(serve: Any) -> None:
    nodes = [_node("w1", ready="Unknown"), _node("w2"), _node("w3", ready="False")]
    pods = [_pod("web-1", "w1", ending=True), _pod("web-2", "w2"), _pod("web-3", "w1")]
    api = serve(Api(nodes, pods))
    beat = NOW.replace(hour=11)
    api.leases = [
        Thing(metadata=Thing(name=name), spec=Thing(renew_time=time))
        for name, time in (("w1", beat), ("w2", NOW), ("w3", None), ("removed", NOW))
    ]
    workloads = read_workloads(api)
    assert workloads.heartbeats == {"w1": beat, "w2": NOW}
    first, second = losses(workloads, ["w1"])
    assert (first.node, first.since) == ("w1", "2026-01-01T11:00:00+00:00")
    assert (first.terminating, first.waiting) == (("team/web-1",), ("team/web-3",))
    assert (second.node, second.since) == ("w3", "2026-01-01T12:00:00+00:00")


def test_what_the_api_refuses_is_an_error_with_its_reason(serve: Any) -> None:
    api = serve(Api([], []))

    def refuse(*_: Any, **__: Any) -> None:
        raise client.ApiException(status=403, reason="Forbidden")

    api.list_node = refuse
    with pytest.raises(ApplianceError, match="stuck on lost nodes could not be read: Forbidden"):
        read_workloads(api)


def test_a_node_says_when_its_kubelet_was_heard_last() -> None:
    node = _node("w1")
    assert node_of(node).heard is None
    node.status.conditions[0].last_heartbeat_time = NOW
    assert node_of(node).heard == NOW.timestamp()
