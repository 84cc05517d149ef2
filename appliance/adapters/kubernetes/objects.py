"""Nodes and pods of the Kubernetes API as the model's own kinds: the one place that reads them.

What must not be here: requests (``client.py``), and what follows from what is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from appliance.model.state.cluster.cluster import (
    GPU_ANNOTATION,
    NETWORK_ANNOTATION,
    SERIAL_ANNOTATION,
    ClusterNode,
)
from appliance.model.state.cluster.gpu_labels import PREFIX as NVIDIA
from appliance.model.state.cluster.gpu_labels import WHOLE
from appliance.model.state.cluster.pods import Pod, PodFault, Toleration
from appliance.model.state.cluster.resources import Resources, allocatable_of, requests_of
from appliance.model.state.facts.placeholders import told_serial
from appliance.model.state.nodes.roles import CONTROL_PLANE_LABELS

# Of our annotations' names.
PREFIX: Final = "appliance.dev/"
MANAGER_LETTERS: Final = 128
MIRROR: Final = "kubernetes.io/config.mirror"
COUNT: Final = re.compile(r"(\d{1,9})(k?)")
DEVICE: Final = re.compile(rf"{re.escape(NVIDIA)}[a-z0-9][a-z0-9.-]{{0,62}}")
HOSTNAME: Final = "kubernetes.io/hostname"
USER_LABELS: Final = ("user", "runai/user", "createdBy")


def is_ready(item: Any) -> bool:
    """Whether a Node or a pod says of itself that it is."""
    return any(c.type == "Ready" and c.status == "True" for c in item.status.conditions or [])


def pod_network_of(config: Mapping[str, str] | None) -> str | None:
    """The network in flannel's ConfigMap; None without one."""
    if not config or "net-conf.json" not in config:
        return None
    network = yaml.safe_load(config["net-conf.json"]).get("Network")
    return str(network) if network else None


def node_of(node: Any, pods: Sequence[Pod] = ()) -> ClusterNode:
    """A Node object; among ``pods`` are those of kube-system, of which one may be its etcd."""
    name, info = node.metadata.name, node.status.node_info
    ready = next((c for c in node.status.conditions or [] if c.type == "Ready"), None)
    labels = node.metadata.labels or {}
    annotations = node.metadata.annotations or {}
    etcd = [pod.ready for pod in pods if pod.node == name and _is_etcd(pod)]
    return ClusterNode(
        name=name,
        ready=ready is not None and ready.status == "True",
        not_ready_reason="" if ready is None else f"{ready.reason}: {ready.message}",
        # The API writes Unknown for a kubelet that it does not hear any more.
        kubelet_speaks=ready is not None and ready.status == "False",
        ready_since=_iso(ready.last_transition_time) if ready else None,
        heard=_epoch(ready.last_heartbeat_time) if ready else None,
        version=info.kubelet_version if info else "",
        internal_ip=next(
            (a.address for a in node.status.addresses or [] if a.type == "InternalIP"), None
        ),
        unschedulable=bool(node.spec.unschedulable),
        taints=tuple(f"{t.key}={t.value or ''}:{t.effect}" for t in node.spec.taints or []),
        control_plane=any(label in labels for label in CONTROL_PLANE_LABELS),
        serial=told_serial(annotations.get(SERIAL_ANNOTATION)),
        system_uuid=info.system_uuid if info else None,
        pod_cidr=node.spec.pod_cidr,
        network_tested=annotations.get(NETWORK_ANNOTATION),
        labels=labels,
        annotations=dict(annotations),
        devices=devices_of(node.status.allocatable),
        devices_there=devices_of(node.status.capacity),
        gpus_tested=annotations.get(GPU_ANNOTATION),
        writers=_writers(getattr(node.metadata, "managed_fields", None)),
        etcd_ready=all(etcd) if etcd else None,
        runtime=(info.container_runtime_version or "") if info else "",
        allocatable=allocatable_of(node.status.allocatable),
    )


def devices_of(quantities: Mapping[str, str] | None) -> dict[str, int]:
    """Resources of NVIDIA -> how many of each, of a node's allocatable or capacity."""
    return {
        name: _whole(quantity)
        for name, quantity in (quantities or {}).items()
        if DEVICE.fullmatch(name)
    }


def _whole(quantity: object) -> int:
    """A count as the API writes it, which makes ``1k`` of 1000; 0 for what is no such count."""
    parts = COUNT.fullmatch(str(quantity or ""))
    return int(parts[1]) * (1000 if parts[2] else 1) if parts else 0


def _is_etcd(pod: Pod) -> bool:
    return pod.namespace == "kube-system" and pod.labels.get("component") == "etcd"


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


def _epoch(moment: Any) -> float | None:
    return moment.timestamp() if moment else None


def pod_of(pod: Any) -> Pod:
    """A pod."""
    meta, spec = pod.metadata, pod.spec
    labels = meta.labels or {}
    ending = meta.deletion_timestamp is not None
    faults = pod_faults(pod)
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        node=spec.node_name or None,
        owner=_owner(pod),
        labels=labels,
        phase=pod.status.phase or "Unknown",
        ready=is_ready(pod) and not ending,
        ending=ending,
        reason=faults[0].sentence if faults else "",
        app=labels.get("k8s-app") or labels.get("app") or labels.get("component") or "",
        mirror=MIRROR in (meta.annotations or {}),
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "")
            for t in spec.tolerations or []
        ),
        claims=tuple(
            volume.persistent_volume_claim.claim_name
            for volume in spec.volumes or []
            if volume.persistent_volume_claim
        ),
        config_maps=tuple(v.config_map.name for v in spec.volumes or [] if v.config_map),
        confined=_why_confined(spec),
        empty_dir=any(v.empty_dir and v.empty_dir.medium != "Memory" for v in spec.volumes or []),
        gpus=devices_asked(pod)[WHOLE],
        user=next((labels[key] for key in USER_LABELS if labels.get(key)), ""),
        grace_seconds=spec.termination_grace_period_seconds or 0,
        images=tuple(container.image or "" for container in spec.containers or []),
        requests=_requests(spec),
        node_selector=spec.node_selector or {},
    )


def pod_faults(pod: Any) -> tuple[PodFault, ...]:
    """Why a pod is not ready: its containers' reasons, its own, then the scheduler's.

    Modules on nodes judge by ``playbooks/module_utils/appliance_pods.py``, which says the same;
    ``tests/contract/test_pod_verdict.py`` compares both.
    """
    status = pod.status
    faults = []
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = container.state.waiting if container.state else None
        ended = container.state.terminated if container.state else None
        # Of a container that only waits for the init containers, those tell the reason.
        if waiting and waiting.reason != "PodInitializing":
            faults.append(PodFault(container.name, waiting.reason or "", waiting.message or ""))
        elif ended and ended.exit_code:
            faults.append(PodFault(container.name, f"ended with code {ended.exit_code}"))
    if status.reason or status.message:
        faults.append(PodFault("", status.reason or "", status.message or ""))
    faults += [
        PodFault("", condition.reason or "", condition.message or "")
        for condition in status.conditions or ()
        if condition.type == "PodScheduled" and condition.status != "True"
    ]
    return tuple(faults)


def devices_asked(pod: Any) -> Counter[str]:
    """Resources of NVIDIA -> how many of each a pod's containers ask for."""
    asked: Counter[str] = Counter()
    for container in pod.spec.containers:
        asked.update(devices_of(container.resources.limits if container.resources else None))
    return asked


def _requests(spec: Any) -> Resources | None:
    """What the scheduler reserves beside GPUs; None where one quantity, of GPUs too, is unclear."""
    own, first = (
        [_asked(container) for container in several or []]
        for several in (spec.containers, spec.init_containers)
    )
    if any(WHOLE in one and not COUNT.fullmatch(str(one[WHOLE])) for one in (*own, *first)):
        return None
    return requests_of(own, first, spec.overhead)


def _asked(container: Any) -> Mapping[str, str]:
    """The requests of a container; a limit alone is one, as the API server makes it."""
    told = container.resources
    return {**(told.limits or {}), **(told.requests or {})} if told else {}


def _owner(pod: Any) -> tuple[str, str] | None:
    owners = [o for o in pod.metadata.owner_references or [] if o.controller]
    return (owners[0].kind, owners[0].name) if owners else None


def _why_confined(spec: Any) -> str:
    if (spec.node_selector or {}).get(HOSTNAME):
        return "its nodeSelector names this node"
    return "its node affinity names this node" if _by_affinity(spec) else ""


def _by_affinity(spec: Any) -> bool:
    """Whether every choice that a required node affinity leaves is one hostname."""
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    terms = [
        [(rule.key, rule.operator, len(rule.values or ())) for rule in term.match_expressions or []]
        for term in (required.node_selector_terms if required else ())
    ]
    return bool(terms) and all((HOSTNAME, "In", 1) in term for term in terms)
