"""Run:ai's node roles in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from appliance.model.site import groups
from appliance.model.site.settings import Site

GROUP_ROLES: Final[Mapping[str, Role]] = {
    groups.SYSTEM_NODES: "system",
    groups.GPU_WORKERS: "gpu",
    groups.CPU_WORKERS: "cpu",
}

Role = Literal["system", "gpu", "cpu"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
PREFIX: Final = "node-role.kubernetes.io/"
SYSTEM_LABEL: Final = PREFIX + "runai-system"
LABELS: Final[Mapping[Role, str]] = {
    "system": SYSTEM_LABEL,
    "gpu": PREFIX + "runai-gpu-worker",
    "cpu": PREFIX + "runai-cpu-worker",
}
CONTROL_PLANE_LABELS: Final = (PREFIX + "control-plane", PREFIX + "master")


@dataclass(frozen=True)
class NodeAffinity:
    """``spec.global.nodeAffinity`` of the RunaiConfig.

    Attributes:
        restrict_scheduling: jobs run only on nodes with a worker's label.
        restrict_system: Run:ai's own pods run only on system nodes.
    """

    restrict_scheduling: bool
    restrict_system: bool


@dataclass(frozen=True)
class AnchoredObject:
    """An object with data that is bound to a node.

    Attributes:
        kind: ``StatefulSet`` (its pod runs there) or ``claim`` (its volume is pinned there).
    """

    kind: Literal["StatefulSet", "claim"]
    namespace: str
    name: str
    node: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class RolesView:
    """The node roles in the cluster.

    Attributes:
        labels: node -> all of its labels.
        affinity: the RunaiConfig's; None while there is none.
        anchored: stateful services of Run:ai, and their nodes.
    """

    labels: Mapping[str, Mapping[str, str]]
    affinity: NodeAffinity | None = None
    anchored: tuple[AnchoredObject, ...] = ()

    def roles(self, node: str) -> frozenset[Role]:
        """Return the roles of a node; only the label's key counts, not its value."""
        return frozenset(role for role in ROLES if LABELS[role] in self.labels.get(node, {}))

    def having(self, role: Role) -> frozenset[str]:
        """Return the nodes with a role."""
        return frozenset(node for node in self.labels if role in self.roles(node))

    def is_control_plane(self, node: str) -> bool:
        """Whether a node is a control-plane node."""
        return any(label in self.labels.get(node, {}) for label in CONTROL_PLANE_LABELS)


def inventory_roles(site: Site) -> dict[str, frozenset[Role]]:
    """Member -> the roles that the inventory's groups give it."""
    system = {node.name for node in site.system_nodes}
    found: dict[str, frozenset[Role]] = {}
    for node in site.cluster_members:
        roles = {role for group, role in GROUP_ROLES.items() if group in node.groups}
        if node.name in system:
            roles.add("system")
        found[node.name] = frozenset(roles)
    return found
