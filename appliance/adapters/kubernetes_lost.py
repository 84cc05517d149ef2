"""What is stuck on nodes that the cluster has lost: pods, volumes, services without a copy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from appliance.model.cluster import LostNode


def read_lost(
    client: Any, call: Callable[..., Any], since: dict[str, str | None]
) -> dict[str, LostNode]:
    """Look at each node that is not Ready.

    Args:
        client: of the API.
        call: makes one request and translates its errors.
        since: node -> when its Ready condition last changed.
    """
    from kubernetes.client import CoreV1Api, StorageV1Api

    core, storage = CoreV1Api(client), StorageV1Api(client)
    pods = [p for p in call(core.list_pod_for_all_namespaces).items if p.spec.node_name in since]
    endpoints = call(core.list_endpoints_for_all_namespaces).items
    attached = call(storage.list_volume_attachment).items
    volumes = call(core.list_persistent_volume).items
    return {
        name: LostNode(
            since=moment,
            terminating=tuple(_where(p) for p in pods if _is_ending(p, name)),
            volumes=tuple(_volumes(name, attached, volumes, pods)),
            services=tuple(_where(e) for e in endpoints if _was_its_only_copy(e, name)),
        )
        for name, moment in since.items()
    }


def _where(item: Any) -> str:
    return f"{item.metadata.namespace}/{item.metadata.name}"


def _is_ending(pod: Any, node: str) -> bool:
    return pod.spec.node_name == node and pod.metadata.deletion_timestamp is not None


def _was_its_only_copy(endpoints: Any, node: str) -> bool:
    """No address is ready, and one that is not stands on the node."""
    subsets = endpoints.subsets or []
    if any(subset.addresses for subset in subsets):
        return False
    waiting = [a for subset in subsets for a in subset.not_ready_addresses or []]
    return any(address.node_name == node for address in waiting)


def _volumes(
    node: str, attached: Collection[Any], volumes: Collection[Any], pods: Collection[Any]
) -> list[str]:
    """Volumes attached to the node, and those of claims that its pods hold."""
    names = {
        item.spec.source.persistent_volume_name
        for item in attached
        if item.spec.node_name == node and item.spec.source.persistent_volume_name
    }
    claims = {
        f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        for pod in pods
        if pod.spec.node_name == node and pod.status.phase not in ("Succeeded", "Failed")
        for volume in pod.spec.volumes or []
        if volume.persistent_volume_claim
    }
    for volume in volumes:
        claim = volume.spec.claim_ref
        if claim and f"{claim.namespace}/{claim.name}" in claims:
            names.add(volume.metadata.name)
    return sorted(names)
