"""What objects of the Kubernetes API say, as the model's own kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from appliance.adapters.kubernetes_gpu import whole_gpus
from appliance.model.cluster import (
    GPU_ANNOTATION,
    NETWORK_ANNOTATION,
    SERIAL_ANNOTATION,
    ClusterNode,
    SystemPod,
)
from appliance.model.placeholders import told_serial

# Of our annotations' names.
PREFIX = "appliance.dev/"
MANAGER_LETTERS = 128


def is_ready(item: Any) -> bool:
    """Whether a Node or a pod says of itself that it is."""
    return any(c.type == "Ready" and c.status == "True" for c in item.status.conditions or [])


def pod_network_of(config: Mapping[str, str] | None) -> str | None:
    """The network in flannel's ConfigMap; None without one."""
    if not config or "net-conf.json" not in config:
        return None
    network = yaml.safe_load(config["net-conf.json"]).get("Network")
    return str(network) if network else None


def node_of(node: Any) -> ClusterNode:
    """A Node object."""
    ready = next((c for c in node.status.conditions or [] if c.type == "Ready"), None)
    labels = node.metadata.labels or {}
    return ClusterNode(
        name=node.metadata.name,
        ready=ready is not None and ready.status == "True",
        not_ready_reason="" if ready is None else f"{ready.reason}: {ready.message}",
        # The API writes Unknown for a kubelet that it does not hear any more.
        kubelet_speaks=ready is not None and ready.status == "False",
        ready_since=_iso(ready.last_transition_time) if ready else None,
        version=node.status.node_info.kubelet_version,
        internal_ip=next(
            (a.address for a in node.status.addresses or [] if a.type == "InternalIP"), None
        ),
        unschedulable=bool(node.spec.unschedulable),
        taints=tuple(f"{t.key}={t.value or ''}:{t.effect}" for t in node.spec.taints or []),
        control_plane="node-role.kubernetes.io/control-plane" in labels
        or "node-role.kubernetes.io/master" in labels,
        serial=told_serial((node.metadata.annotations or {}).get(SERIAL_ANNOTATION)),
        system_uuid=node.status.node_info.system_uuid,
        pod_cidr=node.spec.pod_cidr,
        network_proven=(node.metadata.annotations or {}).get(NETWORK_ANNOTATION),
        labels=labels,
        annotations=dict(node.metadata.annotations or {}),
        allocatable_gpus=whole_gpus(node.status.allocatable),
        gpus_proven=(node.metadata.annotations or {}).get(GPU_ANNOTATION),
        writers=_writers(getattr(node.metadata, "managed_fields", None)),
    )


def _writers(entries: Any) -> dict[str, tuple[str, ...]]:
    """Annotation of ours -> the managers that the API server names for it, sorted."""
    found: dict[str, set[str]] = {}
    for entry in entries or ():
        fields = entry.fields_v1
        for part in ("f:metadata", "f:annotations"):
            fields = fields.get(part) if isinstance(fields, Mapping) else None
        for field in fields if isinstance(fields, Mapping) else ():
            name = str(field).removeprefix("f:")
            if name.startswith(PREFIX) and entry.manager:
                found.setdefault(name, set()).add(str(entry.manager)[:MANAGER_LETTERS])
    return {name: tuple(sorted(managers)) for name, managers in found.items()}


def _iso(moment: Any) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


def pod_of(pod: Any) -> SystemPod:
    """A pod, and why it is not ready."""
    labels = pod.metadata.labels or {}
    return SystemPod(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name,
        ready=is_ready(pod) and pod.metadata.deletion_timestamp is None,
        phase=pod.status.phase or "Unknown",
        reason=_why_not_ready(pod),
        app=labels.get("k8s-app") or labels.get("app") or labels.get("component") or "",
    )


def _why_not_ready(pod: Any) -> str:
    """The first container's waiting or terminated reason, else the scheduler's word."""
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    for status in statuses:
        state = status.state
        if state and state.waiting and state.waiting.reason != "PodInitializing":
            return f"{status.name}: {state.waiting.reason} {state.waiting.message or ''}".strip()
        if state and state.terminated and state.terminated.exit_code:
            return f"{status.name}: ended with code {state.terminated.exit_code}"
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status != "True":
            return f"{condition.reason}: {condition.message}"
    return ""
