"""What each node of a site is at the moment of one look, and the evidence for it.

The planner, the checks and the views read this state; none of them decides again what a node is.
What must not be here: which machine a node is (:mod:`appliance.model.state.facts.identity`), and
whether one may be emptied or is certainly off (:mod:`appliance.model.node`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster, ClusterNode, ClusterState, NoCluster
from appliance.model.state.facts.facts import NodeFacts, UnseenFact, watching
from appliance.model.state.nodes.kubeadm_state import (
    api_hosts,
    ca_of,
    is_member,
    servers_of,
    strange_servers,
)
from appliance.model.state.nodes.maintenance import Maintenance, maintenance_of

if TYPE_CHECKING:
    from appliance.model.state.observed import Observed

Condition = Literal[
    "bare", "member", "member of another cluster", "in maintenance", "lost", "not seen"
]


@dataclass(frozen=True)
class NodeState:
    """What one node is.

    Attributes:
        condition: the first that holds of: in maintenance, lost, not seen, member of another
            cluster, member, bare.
        evidence: what the condition rests on: of its annotation, its machine and the cluster.
        member: its Node object; None where the cluster has none, or no API answers.
        maintenance: what the annotation of its Node object says; None without one.
        answers: its machine was looked at.
        has_identity: the machine has a kubelet's identity, of whichever cluster; False also where
            that was not seen.
    """

    node: str
    condition: Condition
    evidence: tuple[str, ...]
    member: ClusterNode | None = None
    maintenance: Maintenance | None = None
    answers: bool = False
    has_identity: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether a machine answers that shows no kubelet's identity."""
        return self.answers and not self.has_identity

    @property
    def is_joined(self) -> bool:
        """Whether a machine answers that has a kubelet's identity."""
        return self.answers and self.has_identity

    @property
    def is_planned(self) -> bool:
        """Whether it was put into maintenance with its own help, so its silence is no loss."""
        return self.maintenance is not None and not self.maintenance.lost


def node_states(site: Site, observed: Observed) -> Mapping[str, NodeState]:
    """The state of every node of the inventory and of the cluster; decided once for each look."""
    decided = vars(observed).get("_node_states")
    if decided is not None and decided[0] is site:
        states: Mapping[str, NodeState] = decided[1]
        return states
    cluster = observed.cluster
    members = cluster.nodes if isinstance(cluster, Cluster) else {}
    names = dict.fromkeys([*(node.name for node in site.nodes), *members])
    made = {name: node_state(name, site, observed) for name in names}
    # The look is frozen, and this follows from it alone.
    vars(observed)["_node_states"] = (site, made)
    return made


def in_maintenance(site: Site, observed: Observed) -> frozenset[str]:
    """The nodes in maintenance: no plan and no check touches them unless they are named."""
    states = node_states(site, observed)
    return frozenset(name for name, state in states.items() if state.maintenance is not None)


class _Signs(NamedTuple):
    """What speaks for one condition or another.

    Attributes:
        unseen: why the machine's Kubernetes state was not seen; empty where it was.
        foreign: the API servers of another cluster that its kubeconfigs name.
    """

    member: ClusterNode | None
    maintenance: Maintenance | None
    unseen: str
    foreign: tuple[str, ...]
    has_identity: bool


def node_state(name: str, site: Site, observed: Observed) -> NodeState:
    """Decide what one node is, from facts, the cluster and the faults of the look."""
    facts, cluster = observed.node_facts.get(name), observed.cluster
    member = cluster.nodes.get(name) if isinstance(cluster, Cluster) else None
    # What is asked here and was not seen makes this state a guess, and not what the caller judges.
    with watching() as missed:
        has_identity = facts is not None and is_member(facts)
        foreign = _foreign_servers(name, facts, site, observed) if facts else ()
    signs = _Signs(
        member,
        maintenance_of(member.annotations) if member else None,
        _why_unseen(name, observed, missed),
        foreign,
        has_identity,
    )
    evidence = tuple(_evidence(signs, cluster))
    return NodeState(
        name,
        _condition(signs),
        evidence,
        member,
        signs.maintenance,
        answers=facts is not None,
        has_identity=has_identity,
    )


def _condition(signs: _Signs) -> Condition:
    """The first that holds. An API that calls a silent machine Ready may not have noticed yet."""
    member, seen = signs.member, not signs.unseen
    not_ready = member is not None and not member.ready
    kubelet_silent = member is not None and not_ready and not member.kubelet_speaks
    rules: tuple[tuple[bool, Condition], ...] = (
        (signs.maintenance is not None, "in maintenance"),
        (not_ready and not seen, "lost"),
        (not seen, "not seen"),
        (bool(signs.foreign), "member of another cluster"),
        (kubelet_silent and signs.has_identity, "lost"),
        (signs.has_identity, "member"),
    )
    return next((condition for holds, condition in rules if holds), "bare")


def _evidence(signs: _Signs, cluster: ClusterState) -> Iterator[str]:
    """What speaks: its annotation, its machine, the cluster."""
    if signs.maintenance is not None:
        yield signs.maintenance.sentence()
    if signs.unseen:
        yield signs.unseen
    elif signs.foreign:
        yield f"its kubeconfigs name {', '.join(signs.foreign)}"
    else:
        yield "kubelet.conf exists" if signs.has_identity else "no kubelet.conf"
    member = signs.member
    if member is not None:
        why = member.not_ready_reason or "no reason given"
        yield "its Node is Ready" if member.ready else f"its Node is not Ready: {why}"
    elif isinstance(cluster, Cluster):
        yield "the cluster has no such Node"
    else:
        yield "there is no cluster" if isinstance(cluster, NoCluster) else "no API answers"


def _why_unseen(name: str, observed: Observed, missed: Sequence[UnseenFact]) -> str:
    """Why nobody saw what the machine has of Kubernetes; empty where somebody did."""
    facts = observed.node_facts.get(name)
    if facts is None:
        reasons = (fault.reason for fault in observed.faults if fault.node == name)
        return next(reasons, "its machine was not inspected")
    if facts.kubernetes_untold:
        return "the probe timed out before it read the Kubernetes state"
    own = (f"{one.path} is unknown: {one.why}" for one in missed if one.facts is facts)
    return next(own, "")


def _foreign_servers(
    name: str, facts: NodeFacts, site: Site, observed: Observed
) -> tuple[str, ...]:
    """The API servers that a member of another cluster names; none where the machine is ours."""
    servers = servers_of(facts)
    return servers if servers and not is_ours(name, facts, site, observed) else ()


def is_ours(name: str, facts: NodeFacts, site: Site, observed: Observed) -> bool:
    """Whether a machine carries a part of this site's cluster already."""
    if _has_another_ca(name, facts, site, observed.node_facts):
        return False
    cluster = observed.cluster
    if isinstance(cluster, Cluster) and name in cluster.nodes:
        return True
    return len(strange_servers(facts, api_hosts(site))) < len(servers_of(facts))


def _has_another_ca(
    name: str, facts: NodeFacts, site: Site, node_facts: Mapping[str, NodeFacts]
) -> bool:
    """Whether it names another API, and its CA is not that of our control plane either."""
    others = (node.name for node in site.control_plane if node.name != name)
    cas = {ca_of(node_facts[other]) for other in others if other in node_facts} - {None}
    strange = strange_servers(facts, api_hosts(site))
    own = ca_of(facts)
    return bool(strange and cas and own and own not in cas)
