"""What the GPU Operator and the nodes' device plugins say, through the Kubernetes API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from appliance.model.cluster import GpuStack, SystemPod
from appliance.model.gpu import NAMESPACE, RELEASE, RESOURCE

Call = Callable[..., Any]
POLICIES = ("nvidia.com", "v1", "clusterpolicies")


def read_gpu_stack(client: Any, call: Call, pod: Callable[[Any], SystemPod]) -> GpuStack:
    """The operator's word, and its pods.

    Args:
        client: of the API.
        call: makes one request.
        pod: reads one pod.
    """
    from kubernetes.client import AppsV1Api, CoreV1Api, CustomObjectsApi

    policies = call(_Policies(CustomObjectsApi(client)))
    deployments = call(AppsV1Api(client).list_namespaced_deployment, NAMESPACE).items
    pods = call(CoreV1Api(client).list_namespaced_pod, NAMESPACE).items
    return GpuStack(
        state=state_of(policies),
        version=next((_version(d) for d in deployments if d.metadata.name == RELEASE), None),
        pods=tuple(pod(item) for item in pods),
    )


class _Policies:
    """Lists ClusterPolicies; without their definition there are none."""

    def __init__(self, custom: Any) -> None:
        self._custom = custom

    def __call__(self, *, _request_timeout: tuple[int, int]) -> list[Mapping[str, Any]]:
        from kubernetes.client import ApiException

        try:
            found = self._custom.list_cluster_custom_object(
                *POLICIES, _request_timeout=_request_timeout
            )
        except ApiException as error:
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


def _version(deployment: Any) -> str | None:
    version = (deployment.metadata.labels or {}).get("app.kubernetes.io/version")
    return version.removeprefix("v") if version else None


def whole_gpus(allocatable: Mapping[str, str] | None) -> int:
    """How many whole GPUs pods can ask for on a node."""
    return int((allocatable or {}).get(RESOURCE, 0))
