"""The step node_metadata: a node that came back has its labels, taints and annotations."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from appliance.model.state.nodes.kubeadm_state import is_member
from appliance.model.state.nodes.node_metadata import metadata_of, missing
from appliance.model.state.observed import Observed


def unmet(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The step ``node_metadata``: what a node had is on its Node object again."""
    cluster, facts = observed.cluster, observed.node_facts[node.name]
    member = cluster.nodes.get(node.name) if isinstance(cluster, Cluster) else None
    kept = desired.kept.get(node.name)
    if member is not None and not is_member(facts):
        if kept is not None or not metadata_of(member).is_empty:
            yield "its labels and taints will be lost with its old Node object"
    elif kept is not None and not kept.is_empty:
        if member is None:
            yield "is not a member, so its labels and taints are not restored"
        else:
            yield from missing(kept, member)
