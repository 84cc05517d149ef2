"""What depends on nodes whose power is about to change: their machines, pods and services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.node.accepted import accepted_of
from appliance.model.node.bmc.power import PowerSeen
from appliance.model.node.drain import Forecast, forecast
from appliance.model.site import groups
from appliance.model.state.cluster.cluster import Cluster, ClusterNode, NoCluster, Unreachable
from appliance.workflows.node.baselines import read_passports
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.model.node.bmc.orders import BmcMachine
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.facts.identity import MachineIdentity
    from appliance.workflows.session.session import Session


def known_machines(session: Session) -> tuple[Mapping[str, MachineIdentity], str]:
    """Node -> the machine of its passport; and why there is none to read."""
    try:
        passports = read_passports(session.archive)
    except NodeUnreachable as error:
        return {}, error.message
    return {name: passport.machine for name, passport in passports.items()}, ""


class Surroundings:
    """What is known around nodes.

    Attributes:
        known: node -> the machine of its passport.
        unread: why passports were not read; empty where they were.
        unknown: why nobody knows the pods of the nodes; empty where that is known.
        members: the nodes of the cluster, by name.
        facts: node -> what its probe told.
    """

    def __init__(self, known: Mapping[str, MachineIdentity], unread: str) -> None:
        self.known, self.unread = known, unread
        self.unknown = ""
        self.members: Mapping[str, ClusterNode] = {}
        self.facts: Mapping[str, NodeFacts] = {}
        self._forecasts: dict[str, Forecast] = {}
        self._is_served = False

    def look(self, site: Site, nodes: Sequence[Node], session: Session) -> None:
        """See the cluster, and which pods run on these nodes; changes nothing."""
        observed, look = observe(site, session.nodes, session.cluster)
        self.facts = look.node_facts
        self._is_served = not isinstance(observed.cluster, NoCluster)
        if isinstance(observed.cluster, Unreachable):
            self.unknown = observed.cluster.reason
        if not isinstance(observed.cluster, Cluster):
            return
        self.members = observed.cluster.nodes
        names = [node.name for node in nodes if node.name in self.members]
        try:
            views = session.drain.views(names) if names else {}
        except (ClusterError, NodeUnreachable) as error:
            self.unknown = error.message
            return
        self._forecasts = {
            name: forecast(name, view.pods, view.budgets, _without(view.nodes, names, name))
            for name, view in views.items()
        }

    def seen(self, site: Site, node: Node, machine: BmcMachine, answering: str = "") -> PowerSeen:
        """What is known of one node; ``answering``: its address, where it answers while off."""
        name = node.name
        return PowerSeen(
            name,
            machine,
            # The machine of the passport, else the one that the Node object names.
            accepted_of(name, self.members.get(name), self.known.get(name)).machine,
            {other: one for other, one in self.known.items() if other != name},
            self._forecasts.get(name),
            self.unknown,
            self._serves(site, node),
            answering,
        )

    def _serves(self, site: Site, node: Node) -> str:
        """What the cluster has from a node beside pods; nothing before there is a cluster."""
        if not self._is_served:
            return ""
        nfs = site.settings.nfs
        if nfs is not None and str(nfs.server) in (node.name, str(node.ip)):
            return "it is the NFS server: volumes would hang"
        if groups.SERVICES in node.groups:
            return "it serves the registry: no node could pull an image"
        return ""


def _without(
    nodes: Sequence[ClusterNode], going: Sequence[str], name: str
) -> tuple[ClusterNode, ...]:
    """The nodes as they are while the others of the batch are off: none may count on another."""
    return tuple(
        replace(one, ready=False) if one.name in going and one.name != name else one
        for one in nodes
    )
