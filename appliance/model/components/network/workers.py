"""The step workers: every worker is a Ready member."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.components.base.members import (
    identity_faults,
    kubelet_faults,
    member_faults,
    without_cluster,
)
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed


def workers(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The node is a Ready member with this machine's serial, its network and proxy pods ready."""
    yield from kubelet_faults(observed.node_facts[node.name])
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        yield without_cluster(observed)
        return
    yield from member_faults(node, desired, observed.node_facts[node.name], cluster)
    if node.name in cluster.nodes:
        yield from identity_faults(observed.node_facts[node.name], cluster.nodes[node.name])
