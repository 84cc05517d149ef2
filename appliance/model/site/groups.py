"""The inventory's groups: what each is for, and which of them one node may be in at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

CONTROL_PLANE: Final = "control_plane"
GPU_WORKERS: Final = "gpu_workers"
CPU_WORKERS: Final = "cpu_workers"
SYSTEM_NODES: Final = "system_nodes"
SERVICES: Final = "services"
JUMPBOXES: Final = "jumpboxes"

GROUPS: Final[dict[str, str]] = {
    CONTROL_PLANE: "Kubernetes control plane and etcd: 1 or 3 nodes",
    GPU_WORKERS: "workers with GPUs",
    CPU_WORKERS: "workers without GPUs, for jobs that need none",
    SYSTEM_NODES: "workers for Run:ai's own software",
    SERVICES: "the host that serves the bundle and the registry; exactly one",
    JUMPBOXES: "hosts from which researchers work; not members of the cluster",
}

CLUSTER_GROUPS: Final = frozenset({CONTROL_PLANE, GPU_WORKERS, CPU_WORKERS, SYSTEM_NODES})


def majority(members: int) -> int:
    """How many of so many control-plane nodes, or members of etcd, make a majority."""
    return members // 2 + 1


@dataclass(frozen=True)
class Overlap:
    """Whether one node may be in both groups, and why."""

    allowed: bool
    reason: str
    needs_setting: str | None = None


def _pair(one: str, other: str) -> frozenset[str]:
    return frozenset({one, other})


_MASTER = "a control-plane node runs etcd, and a busy worker beside it costs the cluster its quorum"
_ENTRY = "a jumpbox gives access from outside and is not a member of the cluster"
_SERVED = "the services host must answer while a worker is drained, reinstalled or replaced"

OVERLAPS: Final[dict[frozenset[str], Overlap]] = {
    _pair(CONTROL_PLANE, SERVICES): Overlap(
        True, "the smallest appliance has two servers; its master also serves the bundle"
    ),
    _pair(CONTROL_PLANE, GPU_WORKERS): Overlap(False, _MASTER),
    _pair(CONTROL_PLANE, CPU_WORKERS): Overlap(False, _MASTER),
    _pair(CONTROL_PLANE, SYSTEM_NODES): Overlap(False, _MASTER),
    _pair(GPU_WORKERS, CPU_WORKERS): Overlap(
        False, "a node runs jobs with GPUs or jobs without; the scheduler needs one role"
    ),
    _pair(GPU_WORKERS, SYSTEM_NODES): Overlap(
        True, "Run:ai's own pods then take CPU and memory from jobs", "system_nodes_shared"
    ),
    _pair(CPU_WORKERS, SYSTEM_NODES): Overlap(
        True, "Run:ai's own pods then take CPU and memory from jobs", "system_nodes_shared"
    ),
    _pair(GPU_WORKERS, SERVICES): Overlap(False, _SERVED),
    _pair(CPU_WORKERS, SERVICES): Overlap(False, _SERVED),
    _pair(SYSTEM_NODES, SERVICES): Overlap(False, _SERVED),
    _pair(CONTROL_PLANE, JUMPBOXES): Overlap(False, _ENTRY),
    _pair(GPU_WORKERS, JUMPBOXES): Overlap(False, _ENTRY),
    _pair(CPU_WORKERS, JUMPBOXES): Overlap(False, _ENTRY),
    _pair(SYSTEM_NODES, JUMPBOXES): Overlap(False, _ENTRY),
    _pair(SERVICES, JUMPBOXES): Overlap(False, _ENTRY),
}


def refused_overlaps(
    groups: frozenset[str], *, system_nodes_shared: bool
) -> tuple[tuple[str, str, Overlap], ...]:
    """Return each pair of ``groups`` that one node may not be in, with the rule that says so."""
    order = list(GROUPS)
    known = sorted(groups & set(order), key=order.index)
    refused = []
    for one, other in combinations(known, 2):
        overlap = OVERLAPS[_pair(one, other)]
        if not overlap.allowed or (overlap.needs_setting and not system_nodes_shared):
            refused.append((one, other, overlap))
    return tuple(refused)
