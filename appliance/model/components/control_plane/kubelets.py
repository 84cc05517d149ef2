"""Which kubelets get a new client certificate, in which order, and what forbids it.

A kubelet renews its own in time; these are the ones that did not. A control-plane node signs an
ended one itself, with the cluster's CA: its API may need that kubelet to start. Elsewhere the
kubelet asks the API. What must not be here: how a node does it (role ``kubelet_certificate``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from appliance.model.components.control_plane.certificates import (
    KUBELET_CURRENT,
    KUBELET_DAYS,
    CertificateExpiry,
    cure,
    endings,
)
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import connection_vars, ssh_command
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.kubeadm_state import CA
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Refusal

CHECK: Final = "kubelet_certificate"
# A node that signs for itself, and is further ahead: its certificate is valid only later.
MOST_AHEAD_SECONDS: Final = 300


@dataclass(frozen=True)
class KubeletRenewal:
    """One node whose kubelet gets a new client certificate.

    Attributes:
        node: its name.
        on_control_plane: whether the node is one of the control plane.
        due: the certificate with too few days left; None where only the rest of a run is left.
    """

    node: str
    on_control_plane: bool
    due: CertificateExpiry | None

    @property
    def has_expired(self) -> bool:
        """Whether it has ended: the API does not know this kubelet any more."""
        return self.due is not None and self.due.left < 0

    @property
    def comes_first(self) -> bool:
        """Whether it is renewed before everything else: a control plane needs its kubelet."""
        return self.has_expired and self.on_control_plane

    def reasons(self) -> tuple[str, ...]:
        """Why, in a sentence."""
        if self.due is None:
            return ("a renewal of its kubelet's certificate was begun and did not end",)
        return (f"{self.due.path} {self.due.ends} ({self.due.day})",)


def kubelet_renewal_of(node: Node, facts: NodeFacts) -> KubeletRenewal | None:
    """What is due on a node; None where its kubelet renewed its own, or still has time to."""
    due = next(
        (one for one in endings(facts) if one.path == KUBELET_CURRENT and one.left < KUBELET_DAYS),
        None,
    )
    unfinished = facts.at("kubernetes.kubelet_renewal_begun") is True
    if due is None and not unfinished:
        return None
    return KubeletRenewal(node.name, CONTROL_PLANE in node.groups, due)


def kubelet_renewals(
    site: Site, observed: Observed, without: Collection[str]
) -> tuple[KubeletRenewal, ...]:
    """The kubelets that are due, those of the control plane first.

    A node that is no member of a cluster that answers is left alone: with a new certificate it
    would register itself again. ``appliance node rejoin`` is for that.
    """
    cluster = observed.cluster
    members = cluster.nodes if isinstance(cluster, Cluster) else None
    found = [
        renewal
        for node in site.cluster_members
        if node.name not in without
        and node.name in observed.node_facts
        and (members is None or node.name in members)
        and (renewal := kubelet_renewal_of(node, observed.node_facts[node.name]))
    ]
    return tuple(sorted(found, key=lambda one: (not one.comes_first, not one.on_control_plane)))


def forbidden(
    site: Site, observed: Observed, found: Collection[KubeletRenewal], *, api_comes_back: bool
) -> Iterator[Refusal]:
    """What must be fixed before these kubelets can be renewed.

    Args:
        site: whose kubelets they are.
        observed: what was seen of nodes and cluster.
        found: the kubelets that are due.
        api_comes_back: whether the control plane is renewed before, so that its API answers.
    """
    for one in found:
        ahead = _ahead(observed.node_facts[one.node])
        if one.comes_first and ahead > MOST_AHEAD_SECONDS:
            yield Refusal(
                one.node,
                CHECK,
                f"a clock {ahead:.0f} s ahead of this machine's",
                "the right time: what it signs is not valid before",
                f"set it: {ssh_command(site, site.node(one.node), 'chronyc tracking')}; or correct "
                "this machine's clock",
            )
        for ending in endings(observed.node_facts[one.node]):
            if ending.path == CA and ending.left < 0:
                yield Refusal(
                    one.node,
                    CHECK,
                    f"{ending.path}, which ended on {ending.day}",
                    "an authority that is valid: it signs the new certificate",
                    cure(site, site.node(one.node), ending),
                )
    asking = [one for one in found if not one.comes_first]
    if asking and not api_comes_back and not isinstance(observed.cluster, Cluster):
        yield Refusal(
            asking[0].node,
            CHECK,
            "no API server that answers",
            "an API that answers: the kubelet requests its certificate there",
            "see what is wrong: appliance status",
        )


def _ahead(facts: NodeFacts) -> float:
    """Seconds by which a node's clock is ahead of this machine's; 0 where one is not known."""
    if facts.epoch is None or facts.received_at is None:
        return 0.0
    return facts.epoch - facts.received_at


def leader_of(site: Site, cluster: Cluster | None, without: Collection[str]) -> Node:
    """The control-plane node that makes the token: the first that is Ready, else the first."""
    asked = [node for node in site.control_plane if node.name not in without]
    nodes = cluster.nodes if cluster is not None else {}
    ready = (node for node in asked if node.name in nodes and nodes[node.name].ready)
    return next(ready, next(iter(asked), site.control_plane[0]))


def kubelet_inventory(site: Site, node: Node, leader: Node) -> dict[str, Any]:
    """The run's inventory for one kubelet; this needs no bundle and no vault."""
    endpoint = site.settings.control_plane_endpoint
    variables = {
        **connection_vars(site),
        "kubelet_certificate_within_days": KUBELET_DAYS,
        "kubelet_certificate_leader": leader.name,
        "kubelet_certificate_endpoint": f"{endpoint.name}:{endpoint.port}",
    }
    hosts = {one.name: {"ansible_host": one.ip} for one in (node, leader)}
    return {"all": {"vars": variables, "hosts": hosts}}
