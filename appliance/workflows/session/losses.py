"""Which nodes are lost, and what is stuck on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import ApplianceError
from appliance.model.node.lost import LostNode, losses
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.node_state import node_states

if TYPE_CHECKING:
    from appliance.model.state.observed import Look, Observed
    from appliance.workflows.session.session import Session


def find_lost_nodes(
    site: Site, session: Session, observed: Observed, look: Look, warnings: list[str]
) -> tuple[LostNode, ...]:
    """The lost nodes; the API is asked for more only when a node is silent or not Ready."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return ()
    unreachable = {fault.node for fault in look.faults} & cluster.nodes.keys()
    states = node_states(site, observed)
    planned = {name for name, state in states.items() if state.is_planned}
    silent = unreachable | {name for name, node in cluster.nodes.items() if not node.ready}
    if not silent - planned:
        return ()
    try:
        return losses(session.read_workloads(), unreachable, planned)
    except ApplianceError as error:
        warnings.append(error.message)
        return ()
