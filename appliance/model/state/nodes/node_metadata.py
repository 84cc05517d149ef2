"""Labels, annotations and taints that operators and Run:ai put on a Node object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from appliance.model.documents.typed_json import Line
from appliance.model.state.cluster.cluster import ClusterNode

# The kubelet, kubeadm, NFD, GFD or the GPU Operator write these again.
LABELS_OF_OTHERS: Final = (
    "beta.kubernetes.io/",
    "kubernetes.io/",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "feature.node.kubernetes.io/",
    "nvidia.com/",
)
# Exceptions, which an operator sets: MIG configuration, and operands to leave out.
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
# Current conditions, and maintenance, which ends with the Node object.
TAINTS_OF_OTHERS: Final = ("node.kubernetes.io/", "runai=drain:", "appliance.dev/")
ROLE_TAINTS: Final = "node-role.kubernetes.io/"


@dataclass(frozen=True)
class NodeMetadata:
    """The part of a Node object's metadata that no component writes again.

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
        """Whether there is nothing to restore."""
        return not (self.labels or self.annotations or self.taints)


def metadata_of(node: ClusterNode) -> NodeMetadata:
    """Return what must be restored if the Node object is deleted."""
    return NodeMetadata(
        labels={k: v for k, v in node.labels.items() if is_own_label(k)},
        annotations={
            k: v for k, v in node.annotations.items() if not k.startswith(ANNOTATIONS_OF_OTHERS)
        },
        taints=tuple(sorted(t for t in node.taints if not t.startswith(TAINTS_OF_OTHERS))),
    )


def is_own_label(key: str) -> bool:
    """Whether a label is the operator's or Run:ai's."""
    return key in LABELS_OF_OPERATORS or not key.startswith(LABELS_OF_OTHERS)


def missing(kept: NodeMetadata, node: ClusterNode) -> Iterator[str]:
    """Yield a sentence for each item that a Node lacks of its saved metadata."""
    for key, value in sorted(kept.labels.items()):
        if node.labels.get(key) != value:
            yield f"its label {key}={value} is missing"
    for key, value in sorted(kept.annotations.items()):
        if node.annotations.get(key) != value:
            yield f"its annotation {key} is missing"
    for taint in kept.taints:
        if taint not in node.taints:
            yield f"its taint {taint} is missing"
    for taint in new_role_taints(kept, node):
        yield f"has the taint {taint}, which was removed before"


def new_role_taints(kept: NodeMetadata, node: ClusterNode) -> tuple[str, ...]:
    """Return taints that kubeadm added again after the operator had removed them."""
    return tuple(t for t in node.taints if t.startswith(ROLE_TAINTS) and t not in kept.taints)


def merged(older: NodeMetadata | None, newer: NodeMetadata) -> NodeMetadata:
    """Merge the saved metadata that is not restored yet with the Node's current metadata."""
    if older is None:
        return newer
    return replace(
        newer,
        labels={**older.labels, **newer.labels},
        annotations={**older.annotations, **newer.annotations},
        taints=tuple(sorted({*older.taints, *newer.taints})),
    )
