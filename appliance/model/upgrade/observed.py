"""The versions that run: of every node and component, as one look found them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import Maintenance, maintenance_of
from appliance.model.state.observed import Observed
from appliance.model.state.upgrade import REASON
from appliance.model.upgrade.versions import Version, parse, skew_faults

API: Final = "kube-apiserver"
# What kubeadm runs as static pods of the version of Kubernetes.
PARTS: Final = (API, "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class NodeVersions:
    """What runs on one node.

    Attributes:
        kubelet: of the running kubelet, e.g. ``v1.23.5``; empty where the API names none.
        parts: component of the control plane -> its image's tag.
        kube_proxy: tag of its kube-proxy pod; None where it has none.
        runtime: ``docker`` or ``containerd``; empty where the API names none.
        ready: its Node is Ready.
        maintenance: what its annotation says.
        seen: its machine answered.
    """

    name: str
    control_plane: bool
    kubelet: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    kube_proxy: str | None = None
    runtime: str = ""
    ready: bool = True
    maintenance: Maintenance | None = None
    seen: bool = True

    def out_for(self, release: str) -> bool:
        """Whether an upgrade to that release took it out of service and did not bring it back."""
        return self.maintenance is not None and self.maintenance.reason == REASON + release

    def texts(self) -> Iterator[tuple[str, str]]:
        """Each part that has the version of Kubernetes, and its version as found."""
        yield "kubelet", self.kubelet
        yield from self.parts.items()
        if self.kube_proxy is not None:
            yield "kube-proxy", self.kube_proxy

    def parsed(self) -> Mapping[str, Version]:
        """The same, for each version that can be read."""
        found = ((part, parse(text)) for part, text in self.texts())
        return {part: version for part, version in found if version is not None}


def node_versions(node: Node, observed: Observed) -> NodeVersions | None:
    """What runs on a node; None where it is no member, or no API answers."""
    cluster = observed.cluster
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    if not isinstance(cluster, Cluster) or member is None:
        return None
    # A pod that is being replaced says nothing of what will run.
    here = [pod for pod in cluster.pods_on(node.name) if not pod.ending]
    tags = {pod.app: _tag(pod.images[0]) for pod in here if pod.images}
    is_ours = CONTROL_PLANE in node.groups
    return NodeVersions(
        node.name,
        control_plane=is_ours,
        kubelet=member.version,
        parts={part: tags.get(part, "") for part in PARTS} if is_ours else {},
        kube_proxy=tags.get("kube-proxy"),
        runtime=member.runtime.partition("://")[0],
        ready=member.ready,
        maintenance=maintenance_of(member.annotations),
        seen=node.name in observed.node_facts,
    )


def is_between_releases(nodes: Collection[NodeVersions | None]) -> bool:
    """Whether every node runs the same, and none is out of service: no release is half-way."""
    there = [one for one in nodes if one is not None]
    versions = {text for one in there for _, text in one.texts()}
    runtimes = {one.runtime for one in there}
    out = any(one.maintenance is not None for one in there)
    return len(versions) <= 1 and len(runtimes) <= 1 and not out


def _tag(image: str) -> str:
    """The tag of ``registry:5000/name:tag@digest``."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def skew(nodes: Mapping[str, NodeVersions]) -> tuple[str, ...]:
    """A sentence for each pair of observed versions that may not run side by side."""
    read = {name: one.parsed() for name, one in nodes.items()}
    return tuple(
        skew_faults(
            {name: found[API] for name, found in read.items() if API in found},
            {
                name: {part: found[part] for part in PARTS[1:] if part in found}
                for name, found in read.items()
            },
            {name: found["kubelet"] for name, found in read.items() if "kubelet" in found},
            {name: found["kube-proxy"] for name, found in read.items() if "kube-proxy" in found},
        )
    )
