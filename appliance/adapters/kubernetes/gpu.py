"""What the GPU Operator and the nodes' device plugins say, through the Kubernetes API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from appliance.adapters.kubernetes.connection.client import ApiRefused
from appliance.adapters.kubernetes.objects import pod_of
from appliance.model.components.gpu.operator import NAMESPACE, RELEASE
from appliance.model.state.cluster.cluster import Discovery, GpuOperator, GpuStack
from appliance.model.state.cluster.pods import TEMPLATE_LABEL

Call = Callable[..., Any]
# What the chart labels the operator's Deployment with, in whichever namespace it is.
COMPONENT, VERSION = "app.kubernetes.io/component", "app.kubernetes.io/version"
RELEASE_NAME = "meta.helm.sh/release-name"
DISCOVERIES: tuple[tuple[Literal["NFD", "GFD"], str], ...] = (
    ("NFD", "node-feature-discovery"),
    ("GFD", "gpu-feature-discovery"),
)
POLICIES = ("nvidia.com", "v1", "clusterpolicies")


def read_gpu_operators(client: Any, call: Call) -> tuple[GpuOperator, ...]:
    """Every GPU Operator of the cluster, whoever installed it; ``call`` makes one request."""
    from kubernetes.client import AppsV1Api

    listed = call(AppsV1Api(client).list_deployment_for_all_namespaces).items
    return tuple(
        operator_of(item.metadata)
        for item in listed
        if item.metadata.name == RELEASE or (item.metadata.labels or {}).get(COMPONENT) == RELEASE
    )


def read_discoveries(client: Any, call: Call) -> tuple[Discovery, ...]:
    """Every DaemonSet of the cluster that labels nodes with their hardware."""
    from kubernetes.client import AppsV1Api

    listed = call(AppsV1Api(client).list_daemon_set_for_all_namespaces).items
    return tuple(found for item in listed if (found := discovery_of(item)) is not None)


def discovery_of(daemon_set: Any) -> Discovery | None:
    """What a DaemonSet discovers; None where it does something else.

    Its name and label are its chart's affair. An image keeps its name in every registry.
    """
    images = [
        container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        for container in daemon_set.spec.template.spec.containers
    ]
    for kind, name in DISCOVERIES:
        if name in images:
            meta = daemon_set.metadata
            release = (meta.annotations or {}).get(RELEASE_NAME)
            return Discovery(kind, meta.namespace, meta.name, release)
    return None


def read_gpu_stack(
    client: Any,
    call: Call,
    operators: Iterable[GpuOperator],
) -> GpuStack:
    """The operator's word, and its pods.

    Args:
        client: of the API.
        call: makes one request.
        operators: every one of the cluster.
    """
    from kubernetes.client import AppsV1Api, CoreV1Api

    policies = _policies(client, call)
    pods = call(CoreV1Api(client).list_namespaced_pod, NAMESPACE).items
    revisions = call(AppsV1Api(client).list_namespaced_controller_revision, NAMESPACE).items
    return GpuStack(
        state=state_of(policies),
        version=next((one.version for one in operators if one.namespace == NAMESPACE), None),
        pods=tuple(pod_of(item) for item in pods),
        templates=templates_of(revisions),
    )


def templates_of(revisions: Iterable[Any]) -> dict[str, str]:
    """DaemonSet -> hash of its newest template."""
    found: dict[str, tuple[int, str]] = {}
    for item in revisions:
        digest = (item.metadata.labels or {}).get(TEMPLATE_LABEL, "")
        for owner in item.metadata.owner_references or ():
            newest = found.get(owner.name, (-1, ""))
            if owner.kind == "DaemonSet" and item.revision > newest[0]:
                found[owner.name] = (item.revision, digest)
    return {name: digest for name, (_, digest) in found.items()}


def _policies(client: Any, call: Call) -> list[Mapping[str, Any]]:
    """The ClusterPolicies; without their definition there are none."""
    from kubernetes.client import CustomObjectsApi

    try:
        found = call(CustomObjectsApi(client).list_cluster_custom_object, *POLICIES)
    except ApiRefused as error:
        if error.status == 404:
            return []
        raise
    items: list[Mapping[str, Any]] = found["items"]
    return items


def state_of(policies: list[Mapping[str, Any]]) -> str | None:
    """What the one ClusterPolicy says; None without one, ``unknown`` when it says nothing yet."""
    if not policies:
        return None
    return str((policies[0].get("status") or {}).get("state") or "unknown")


def operator_of(metadata: Any) -> GpuOperator:
    """An operator by its Deployment's metadata."""
    version = (metadata.labels or {}).get(VERSION)
    return GpuOperator(
        metadata.namespace,
        (metadata.annotations or {}).get(RELEASE_NAME),
        version.removeprefix("v") if version else None,
    )
