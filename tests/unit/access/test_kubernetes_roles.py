"""Roles and flags between the Kubernetes API and the model, against recorded answers."""

from __future__ import annotations

from types import SimpleNamespace as Thing
from typing import Any

import pytest

from appliance.adapters.kubernetes.connection.client import ApiRefused
from appliance.adapters.kubernetes.nodes.roles import api_flags, read_roles, write_roles
from appliance.model.components.node_metadata.node_roles import LabelChange, RolesPlan
from appliance.model.state.nodes.roles import LABELS, AnchoredObject, NodeAffinity

AFFINITY = {"restrictScheduling": True, "restrictRunaiSystem": False}


def named(name: str, **metadata: Any) -> Thing:
    return Thing(metadata=Thing(name=name, **metadata))


class Api:
    """Answers by the name of the function, and remembers what was written."""

    def __init__(self, config: dict[str, Any] | int) -> None:
        self.config = config
        self.written: list[tuple[str, Any]] = []

    def __call__(self, function: Any, *arguments: Any) -> Any:
        return getattr(self, function.__name__)(*arguments)

    def list_node(self) -> Any:
        return Thing(items=[named("w1", labels={LABELS["gpu"]: "false"}), named("m1", labels=None)])

    def get_namespaced_custom_object(self, *_: Any) -> Any:
        if isinstance(self.config, int):
            raise ApiRefused(self.config, "a reason")
        return self.config

    def list_namespaced_pod(self, namespace: str) -> Any:
        if namespace != "runai":
            return Thing(items=[])
        owner = Thing(kind="StatefulSet", name="db")
        pods = [
            ([owner], "w1"),
            ([owner], None),
            ([Thing(kind="ReplicaSet", name="rs")], "w1"),
            (None, "w1"),
        ]
        items = [
            Thing(metadata=Thing(owner_references=owners), spec=Thing(node_name=node))
            for owners, node in pods
        ]
        return Thing(items=items)

    def list_namespaced_persistent_volume_claim(self, namespace: str) -> Any:
        if namespace == "runai":
            return Thing(items=[named("free", annotations=None)])
        pinned = {"volume.kubernetes.io/selected-node": "m1"}
        return Thing(items=[named("data-0", annotations=pinned)])

    def patch_node(self, name: str, body: Any) -> None:
        self.written.append((name, body["metadata"]["labels"]))

    def patch_namespaced_custom_object(self, *arguments: Any) -> None:
        *place, body = arguments
        assert place == ["run.ai", "v1", "runai", "runaiconfigs", "runai"]
        self.written.append(("RunaiConfig", body))


def test_labels_config_and_what_is_bound_are_read() -> None:
    view = read_roles(None, Api({"spec": {"global": {"nodeAffinity": AFFINITY}}}))
    assert view.having("gpu") == {"w1"}
    assert view.affinity == NodeAffinity(True, False)
    assert view.anchored == (
        AnchoredObject("StatefulSet", "runai", "db", "w1"),
        AnchoredObject("claim", "runai-backend", "data-0", "m1"),
    )


def test_no_config_yet_is_no_error_and_anything_else_is() -> None:
    assert read_roles(None, Api(404)).affinity is None
    assert read_roles(None, Api({})).affinity == NodeAffinity(False, False)
    with pytest.raises(ApiRefused, match="403"):
        read_roles(None, Api(403))


@pytest.mark.parametrize("first", [True, False])
def test_a_restriction_is_loosened_before_and_set_after_the_labels(first: bool) -> None:
    api = Api({})
    changes = (LabelChange("w1", "gpu", False), LabelChange("w1", "cpu", True))
    write_roles(None, api, RolesPlan(changes, {"spec": {}}, patch_first=first))
    labels: tuple[str, Any] = ("w1", {LABELS["gpu"]: None, LABELS["cpu"]: ""})
    config: tuple[str, Any] = ("RunaiConfig", {"spec": {}})
    assert api.written == ([config, labels] if first else [labels, config])


def test_without_a_patch_the_config_is_not_touched() -> None:
    api = Api({})
    write_roles(None, api, RolesPlan((LabelChange("w1", "gpu", True),)))
    assert [name for name, _ in api.written] == ["w1"]


def test_flags_are_read_from_the_configuration_and_from_each_api_server() -> None:
    command = ["kube-apiserver", "--oidc-client-id=runai", "--secure-port=6443", "--flag"]
    pod = Thing(
        metadata=Thing(labels={"component": "kube-apiserver"}),
        spec=Thing(node_name="cp1", containers=[Thing(command=command, args=None)]),
    )
    other = Thing(metadata=Thing(labels=None), spec=Thing(node_name="cp1", containers=[]))
    text = "apiServer:\n  extraArgs: {oidc-client-id: runai, authorization-mode: Node}\n"
    found = api_flags([pod, other], {"ClusterConfiguration": text})
    assert found.running == {"cp1": {"oidc-client-id": "runai"}}
    assert found.configured == {"oidc-client-id": "runai"}
    assert api_flags([], None).configured == {}


def test_the_ranges_are_read_from_the_pods_of_the_control_plane() -> None:
    def pod(node: str, component: str, *arguments: str) -> Thing:
        return Thing(
            metadata=Thing(labels={"component": component}),
            spec=Thing(
                node_name=node, containers=[Thing(command=[component, *arguments], args=None)]
            ),
        )

    found = api_flags(
        [
            pod("cp1", "kube-apiserver", "--service-cluster-ip-range=10.96.0.0/12"),
            pod("cp1", "kube-controller-manager", "--cluster-cidr=10.244.0.0/16"),
            pod("cp2", "kube-apiserver", "--service-cluster-ip-range="),
            pod("cp2", "kube-controller-manager"),
        ],
        None,
    )
    assert found.service_ranges == {"cp1": "10.96.0.0/12"}
    assert found.pod_ranges == {"cp1": "10.244.0.0/16"}
