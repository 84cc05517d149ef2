"""Which nodes must not be burnt in: those that the cluster needs, or that carry pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from appliance.model.site import groups
from appliance.model.site.settings import Node, Site
from appliance.model.state.cluster.cluster import Cluster, ClusterState, NoCluster, Unreachable
from appliance.model.state.nodes.node_state import NodeState


@dataclass(frozen=True)
class Refusal:
    """One node that is refused.

    Attributes:
        why: in words, with its name.
        hint: what to do.
    """

    why: str
    hint: str


def refusals(
    site: Site,
    nodes: Sequence[Node],
    cluster: ClusterState,
    states: Mapping[str, NodeState],
    pods: Mapping[str, int],
) -> Iterator[Refusal]:
    """Every reason not to load these nodes for hours.

    Args:
        site: the site.
        nodes: to be loaded.
        cluster: as it was observed.
        states: node -> what it is.
        pods: node -> how many pods an eviction would move away from it.
    """
    for node in nodes:
        state = states[node.name]
        if state.condition == "member of another cluster":
            yield Refusal(
                f"{node.name}: it is a member of another cluster: {'; '.join(state.evidence)}",
                f"reset it first: appliance node rejoin {node.name}",
            )
        elif not isinstance(cluster, NoCluster):
            yield from _of_a_member(site, node, cluster, state, pods.get(node.name, 0))


def _of_a_member(
    site: Site, node: Node, cluster: ClusterState, state: NodeState, pods: int
) -> Iterator[Refusal]:
    if isinstance(cluster, Unreachable):
        yield Refusal(
            f"{node.name}: whether it carries pods is unknown: {cluster.reason}",
            "make the API answer: appliance status",
        )
        return
    assert isinstance(cluster, Cluster)  # noqa: S101  (there is no fourth state)
    if what := _needed(site, node):
        yield Refusal(
            f"{node.name}: the cluster needs it: {what}",
            "burn such a node in before the first install",
        )
    elif state.member is None and not state.has_identity:
        return
    elif state.maintenance is None:
        yield Refusal(
            f"{node.name}: it is a member of the cluster, and carries pods",
            f"maintain it first: appliance node maintain {node.name}",
        )
    elif pods:
        yield Refusal(
            f"{node.name}: {pods} pods still run on it",
            f"empty it first: appliance node maintain {node.name}",
        )


def _needed(site: Site, node: Node) -> str:
    """What the cluster has from a node beside pods."""
    nfs = site.settings.nfs
    if groups.CONTROL_PLANE in node.groups:
        return "it carries etcd and the API"
    if nfs is not None and str(nfs.server) in (node.name, str(node.ip)):
        return "it is the NFS server"
    return "it serves the registry" if groups.SERVICES in node.groups else ""
