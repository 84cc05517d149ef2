"""Which control-plane nodes get new Kubernetes certificates, in which order, and what forbids it.

kubeadm's certificates last a year (kubeadm 1.23, ``certs renew``). On each node etcd and the API
server restart, so the others must carry the API meanwhile; where certificates have expired, nothing
carries it any more, and the renewal is the cure. What must not be here: how a node renews them
(role ``kubernetes_certificates``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from appliance.model.components.control_plane.certificates import CertificateExpiry, cure, endings
from appliance.model.components.control_plane.immutable_settings import API_PORT
from appliance.model.components.control_plane.kubelets import (
    KubeletRenewal,
    forbidden,
    kubelet_renewals,
)
from appliance.model.site.groups import majority
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import connection_vars
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import Refusal

CHECK: Final = "certificate_renewal"
# As health warns, so that one command answers the warning.
WITHIN_DAYS: Final = 60
# Of the year that kubeadm gives: more would never be met.
MOST_DAYS: Final = 360


@dataclass(frozen=True)
class NodeRenewal:
    """One node whose certificates are renewed.

    Attributes:
        node: its name.
        due: kubeadm's certificates and kubeconfigs with too few days left, the earliest first.
        unfinished: a renewal was begun there, and did not end.
    """

    node: str
    due: tuple[CertificateExpiry, ...]
    unfinished: bool = False

    @property
    def has_expired(self) -> bool:
        """Whether one has expired: etcd or the API server of this node may not answer."""
        return self.ends_within(0)

    def ends_within(self, days: float) -> bool:
        """Whether one has fewer days left."""
        return any(one.left < days for one in self.due)

    def reasons(self) -> tuple[str, ...]:
        """Why, one sentence for each file."""
        begun = ("a renewal was begun and did not end",) if self.unfinished else ()
        return (*begun, *(f"{one.path} {one.ends} ({one.day})" for one in self.due))


@dataclass(frozen=True)
class RenewalPlan:
    """What will be renewed, and what forbids it.

    Attributes:
        renewals: of kubeadm's certificates, in the order of the work; empty where none is due.
        kubelets: whose own certificate is renewed, in the order of the work.
        refusals: what must be fixed first.
        left_out: nodes that were left out by name, and stay as they are.
        unseen: workers that did not answer: of their kubelets nothing is known.
    """

    renewals: tuple[NodeRenewal, ...] = ()
    kubelets: tuple[KubeletRenewal, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    left_out: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, each once."""
        return tuple(dict.fromkeys(node for _, node in self.work))

    @property
    def work(self) -> tuple[tuple[str, str], ...]:
        """(step, node) of everything that is done."""
        kubeadms = (("kubernetes_certificates", one.node) for one in self.renewals)
        return (*kubeadms, *(("kubelet_certificate", one.node) for one in self.kubelets))


def renewal_of(node: Node, facts: NodeFacts, within_days: float) -> NodeRenewal | None:
    """What is due on a node; None where every certificate of kubeadm is valid for longer."""
    due = tuple(one for one in endings(facts) if one.keeper == "kubeadm" and one.left < within_days)
    unfinished = facts.at("kubernetes.renewal_begun") is True
    return NodeRenewal(node.name, due, unfinished) if due or unfinished else None


def plan_renewal(
    site: Site, observed: Observed, look: Look, within_days: float, without: Collection[str] = ()
) -> RenewalPlan:
    """Plan the renewal.

    Args:
        site: whose control-plane nodes are renewed.
        observed: what was seen of nodes and cluster.
        look: which nodes did not answer, and why.
        within_days: certificates with fewer days left are due.
        without: nodes that are left out, although they may need it.
    """
    asked = [node for node in site.control_plane if node.name not in without]
    found = [
        renewal
        for node in asked
        if node.name in observed.node_facts
        and (renewal := renewal_of(node, observed.node_facts[node.name], within_days))
    ]
    # Where they have expired, the API may be away until most nodes are renewed: these come first.
    # Then a node that was left half done: no other may restart before it is back.
    found.sort(key=lambda renewal: (not renewal.has_expired, not renewal.unfinished))
    faults = {fault.node: fault for fault in look.faults}
    refusals = [
        Refusal(
            node.name,
            CHECK,
            faults[node.name].reason if node.name in faults else "no facts",
            "an answer: all control-plane nodes need new certificates",
            f"if it stays away: appliance cluster certificates renew --without {node.name}",
        )
        for node in asked
        if node.name not in observed.node_facts
    ]
    kubelets = kubelet_renewals(site, observed, without)
    first = {one.node for one in kubelets if one.comes_first}
    if found and not refusals:
        refusals += _without_authority(site, observed, found)
    if found and not refusals:
        refusals += _not_carried(site, observed, found, {*without}, first)
    if kubelets and not refusals:
        comes = bool(first) or any(one.has_expired or one.unfinished for one in found)
        refusals += forbidden(site, observed, kubelets, api_comes_back=comes)
    unseen = [
        node.name for node in site.workers if node.name not in {*observed.node_facts, *without}
    ]
    return RenewalPlan(tuple(found), kubelets, tuple(refusals), tuple(without), tuple(unseen))


def _without_authority(
    site: Site, observed: Observed, found: list[NodeRenewal]
) -> Iterator[Refusal]:
    """What an authority that ended signs is trusted by nobody."""
    for renewal in found:
        for ending in endings(observed.node_facts[renewal.node]):
            if ending.keeper == "authority" and ending.left < 0:
                yield Refusal(
                    renewal.node,
                    CHECK,
                    f"{ending.path}, which ended on {ending.day}",
                    "an authority that is valid: it signs the new certificates",
                    cure(site, site.node(renewal.node), ending),
                )


def _not_carried(
    site: Site, observed: Observed, found: list[NodeRenewal], without: set[str], first: set[str]
) -> Iterator[Refusal]:
    """While a node restarts its programs, the others must be well; unless nothing is any more.

    A renewal that did not end explains that its own node is away, and no other. So does a kubelet
    whose certificate has ended: the nodes of ``first`` are made well before.
    """
    if any(renewal.has_expired for renewal in found):
        return
    cluster = observed.cluster
    begun = {renewal.node for renewal in found if renewal.unfinished} | first
    if not isinstance(cluster, Cluster):
        if begun and len(site.control_plane) - len(begun) < majority(len(site.control_plane)):
            return
        yield Refusal(
            found[0].node,
            CHECK,
            "no API server that answers, although no certificate has expired",
            "a healthy control plane",
            "see what is wrong: appliance status",
        )
        return
    for node in site.control_plane:
        member = cluster.nodes.get(node.name)
        if node.name in without or (member is not None and (member.ready or node.name in begun)):
            continue
        yield Refusal(
            node.name,
            CHECK,
            "not Ready" if member else "no member of the cluster",
            "every control-plane node Ready: their programs restart one node at a time",
            f"repair it, or leave it out: --without {node.name}",
        )


def awaits_ready(site: Site, plan: RenewalPlan, renewed: Collection[str]) -> bool:
    """Whether the programs of the next node can be healthy: etcd needs a majority that trusts.

    Args:
        site: whose control plane it is.
        plan: what is renewed.
        renewed: the nodes with new certificates, the next one included.
    """
    expired = {one.node for one in plan.renewals if one.has_expired} - set(renewed)
    away = expired | set(plan.left_out)
    return len(site.control_plane) - len(away) >= majority(len(site.control_plane))


def renewal_inventory(
    site: Site, node: Node, within_days: int, *, await_ready: bool
) -> dict[str, Any]:
    """The run's inventory for one node; this needs no bundle and no vault."""
    variables = {
        **connection_vars(site),
        "kubernetes_certificates_within_days": within_days,
        "kubernetes_certificates_await_ready": await_ready,
        "kubernetes_certificates_api_port": API_PORT,
        "kubeadm_control_plane_leader": node.name,
        "kubeadm_control_plane_login_user": site.settings.ssh.user,
        "kubeadm_control_plane_kubeconfig_path": str(site.state_directory / "kubeconfig"),
    }
    return {"all": {"vars": variables, "hosts": {node.name: {"ansible_host": node.ip}}}}


def open_points(node: Node, facts: NodeFacts | None, within_days: float) -> tuple[str, ...]:
    """Why a node is not done; empty when it is."""
    if facts is None:
        return ("it does not answer",)
    renewal = renewal_of(node, facts, within_days)
    return renewal.reasons() if renewal else ()
