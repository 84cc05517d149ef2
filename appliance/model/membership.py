"""What a node has beyond its kubelet's own, and which nodes were taken out on purpose.

Labels, taints and annotations live on the Node object and die with it. Before a Node object goes,
what an operator or Run:ai put on it is kept in a document; when the node is a member again it is
put back. The same document says that a node was removed on purpose, so that no install brings it
back by itself. What must not be here: reading or writing either (that is an adapter's).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.model.cluster import Cluster, ClusterNode
from appliance.model.machine_identity import MachineIdentity, identity
from appliance.model.traces import is_member
from appliance.model.typed_json import Line, NodeName, read_typed

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.plan import Choice
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node, Site

FOLDER: Final = "members"
# Written by the kubelet, kubeadm, NFD, GFD or the GPU Operator: it comes back with them.
LABELS_OF_OTHERS: Final = (
    "beta.kubernetes.io/",
    "kubernetes.io/",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "feature.node.kubernetes.io/",
    "nvidia.com/",
)
# Among those, what an operator chooses: how GPUs are cut, and which operands stay away.
LABELS_OF_OPERATORS: Final = (
    "nvidia.com/mig.config",
    "nvidia.com/device-plugin.config",
    "nvidia.com/gpu.workload.config",
    "nvidia.com/gpu.deploy.operands",
)
ANNOTATIONS_OF_OTHERS: Final = (
    "appliance.dev/",
    "csi.volume.kubernetes.io/",
    "flannel.alpha.coreos.com/",
    "kubeadm.alpha.kubernetes.io/",
    "kubectl.kubernetes.io/",
    "nfd.node.kubernetes.io/",
    "node.alpha.kubernetes.io/",
    "nvidia.com/",
    "projectcalico.org/",
    "volumes.kubernetes.io/",
)
# Conditions of the moment, and maintenance, which does not outlive the Node.
TAINTS_OF_OTHERS: Final = ("node.kubernetes.io/", "runai=drain:", "appliance.dev/")
ROLE_TAINTS: Final = "node-role.kubernetes.io/"


@dataclass(frozen=True)
class Belongings:
    """What a Node object carries that nobody writes again by himself.

    Attributes:
        labels: key -> value, Run:ai's roles and ``run.ai/type`` among them.
        annotations: key -> value.
        taints: ``key=value:effect``, as :class:`ClusterNode` has them.
    """

    labels: Mapping[Line, Line] = field(default_factory=dict)
    annotations: Mapping[Line, str] = field(default_factory=dict)
    taints: tuple[Line, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to put back."""
        return not (self.labels or self.annotations or self.taints)


@dataclass(frozen=True)
class Removal:
    """That a node was taken out on purpose: by whom, when, why, and what it was.

    Attributes:
        serial: the DMI serial that the cluster had accepted, or None.
        identity: what else the accepted machine tells; nothing in documents of older versions.
        address: its address, for whoever looks for the machine.
        reset: the machine itself was emptied; else it still believes that it is a member.
        etcd_member: it held one of etcd's members.
    """

    by: Line
    at: Line
    reason: str = ""
    serial: Line | None = None
    address: Line = ""
    reset: bool = False
    etcd_member: bool = False
    identity: MachineIdentity = field(default_factory=MachineIdentity)

    @property
    def machine(self) -> MachineIdentity:
        """The machine that the cluster had accepted, without what nobody filled in."""
        return identity(**{**asdict(self.identity), "serial": self.serial})


@dataclass(frozen=True)
class MemberRecord:
    """The document of one node, ``members/<node>.json``."""

    node: NodeName
    removed: Removal | None = None
    kept: Belongings | None = None

    @property
    def document(self) -> str:
        """Its name in the archive."""
        return f"{FOLDER}/{self.node}.json"

    def text(self) -> str:
        """The document as JSON."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def parse_record(text: str) -> MemberRecord:
    """Read a document that :meth:`MemberRecord.text` wrote; unknown keys are left out.

    Raises:
        Unreadable: it is no such document.
    """
    return read_typed(text, MemberRecord)


def belongings_of(node: ClusterNode) -> Belongings:
    """What is to be put back on a Node, should its object go."""
    return Belongings(
        labels={k: v for k, v in node.labels.items() if is_own_label(k)},
        annotations={
            k: v for k, v in node.annotations.items() if not k.startswith(ANNOTATIONS_OF_OTHERS)
        },
        taints=tuple(sorted(t for t in node.taints if not t.startswith(TAINTS_OF_OTHERS))),
    )


def is_own_label(key: str) -> bool:
    """Whether a label is the operator's or Run:ai's."""
    return key in LABELS_OF_OPERATORS or not key.startswith(LABELS_OF_OTHERS)


def missing(kept: Belongings, node: ClusterNode) -> Iterator[str]:
    """One sentence for each thing that a Node lacks of what was kept for it."""
    for key, value in sorted(kept.labels.items()):
        if node.labels.get(key) != value:
            yield f"its label {key}={value} is not back"
    for key, value in sorted(kept.annotations.items()):
        if node.annotations.get(key) != value:
            yield f"its annotation {key} is not back"
    for taint in kept.taints:
        if taint not in node.taints:
            yield f"its taint {taint} is not back"
    for taint in new_role_taints(kept, node):
        yield f"has the taint {taint}, which had been taken from it"


def new_role_taints(kept: Belongings, node: ClusterNode) -> tuple[str, ...]:
    """Taints that kubeadm gave a control-plane node anew, and the operator had taken away."""
    return tuple(t for t in node.taints if t.startswith(ROLE_TAINTS) and t not in kept.taints)


def unmet(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The step ``belongings``: what a node had is on its Node object again."""
    cluster, photo = observed.cluster, observed.photographs[node.name]
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    kept = desired.kept.get(node.name)
    if member is not None and not is_member(photo):
        if kept is not None or not belongings_of(member).is_empty:
            yield "what it had of labels and taints goes with its old Node object"
    elif kept is not None and not kept.is_empty:
        if member is None:
            yield "is not a member, so its labels and taints are not back"
        else:
            yield from missing(kept, member)


def to_keep(desired: Desired, observed: Observed, choice: Choice) -> tuple[MemberRecord, ...]:
    """The documents to write before a step lets go of Node objects.

    What the living Node object has is newer than what was kept of an earlier one. A node that
    returns on the operator's word is from then on no longer removed.
    """
    nodes = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    found = []
    for name in sorted({*choice.stale, *desired.returning}):
        member = nodes.get(name)
        photo = observed.photographs.get(name)
        kept = desired.kept.get(name)
        if member is not None and photo is not None and not is_member(photo):
            kept = merged(kept, belongings_of(member))
        found.append(MemberRecord(name, removed=None, kept=kept))
    return tuple(found)


def settled(desired: Desired, observed: Observed) -> tuple[str, ...]:
    """The nodes that have again all that was kept for them: from then on it is theirs to change."""
    nodes = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    return tuple(
        name
        for name, kept in desired.kept.items()
        if name in nodes
        and (photo := observed.photographs.get(name)) is not None
        and is_member(photo)
        and not any(missing(kept, nodes[name]))
    )


def merged(older: Belongings | None, newer: Belongings) -> Belongings:
    """What was kept of a Node and not put back yet, and what its object has now."""
    if older is None:
        return newer
    return replace(
        newer,
        labels={**older.labels, **newer.labels},
        annotations={**older.annotations, **newer.annotations},
        taints=tuple(sorted({*older.taints, *newer.taints})),
    )


def removed(site: Site, records: Mapping[str, MemberRecord]) -> frozenset[str]:
    """The nodes of a site that were taken out on purpose.

    The only control-plane node, and the one that serves the others, cannot have been: a record that
    says so is of another inventory.
    """
    gone = {name for name, record in records.items() if record.removed is not None}
    left = site.without(gone)
    if not left.control_plane or site.services_node.name in gone:
        return frozenset()
    return frozenset(gone & {node.name for node in site.nodes})


def belongings(records: Mapping[str, MemberRecord]) -> dict[str, Belongings]:
    """Node -> what is to be put back on it."""
    return {name: record.kept for name, record in records.items() if record.kept is not None}
