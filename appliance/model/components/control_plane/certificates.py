"""When the Kubernetes certificates on a node expire, who renews each, and with which command.

kubeadm's certificates last a year and are not renewed automatically. The kubelet renews its own
when 10 to 30 % of its time is left, so fewer days mean that the renewal failed. CAs last ten years;
``kubeadm certs renew`` renews neither those nor CAs that the site brought.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from appliance.model.documents.pages import page
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import ssh_command
from appliance.model.state.certificates import days_left
from appliance.model.state.facts.facts import NodeFacts

KUBELET_CURRENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
KUBELET_CONF = "/etc/kubernetes/kubelet.conf"
KUBELETS = frozenset({KUBELET_CURRENT, KUBELET_CONF})
KUBELET_DAYS = 7
PAGE = page("renew-kubernetes-certificates")

Keeper = Literal["kubeadm", "kubelet", "authority"]


@dataclass(frozen=True)
class CertificateExpiry:
    """One certificate of Kubernetes on a node.

    Attributes:
        path: the file that holds it: a certificate, or a kubeconfig.
        day: when it expires, e.g. ``2027-06-01``.
        left: the days until it expires, by the node's clock.
        keeper: who renews it.
    """

    path: str
    day: str
    left: float
    keeper: Keeper

    @property
    def is_left_alone(self) -> bool:
        """Whether its keeper still has time to renew it."""
        return self.keeper == "kubelet" and self.left >= KUBELET_DAYS

    @property
    def ends(self) -> str:
        """When it expires, in words."""
        if self.left < 0:
            return f"expired {-self.left:.0f} days ago"
        return f"expires in {self.left:.0f} days"


def endings(facts: NodeFacts) -> tuple[CertificateExpiry, ...]:
    """Return the certificates and kubeconfigs with a known expiry, the earliest first."""
    return tuple(sorted(_endings(facts), key=lambda ending: (ending.left, ending.path)))


def _endings(facts: NodeFacts) -> Iterator[CertificateExpiry]:
    for seen in (*facts.items("kubernetes.pki"), *facts.items("kubernetes.kubeconfigs")):
        path, end = str(seen.get("path")), seen.get("not_after")
        left = days_left(facts, end)
        if left is not None:
            yield CertificateExpiry(path, str(end)[:10], left, _keeper(path))


def _keeper(path: str) -> Keeper:
    if path in KUBELETS:
        return "kubelet"
    return "authority" if PurePosixPath(path).stem.endswith("ca") else "kubeadm"


def cure(site: Site, node: Node, ending: CertificateExpiry) -> str:
    """Return the commands that renew it, in order."""
    if ending.keeper == "kubelet":
        if ending.path == KUBELET_CONF:
            return f"{ending.path} holds a certificate of its own: {PAGE} says what to write there"
        journal = ssh_command(site, node, "'sudo journalctl -u kubelet | grep -i certificate'")
        return f"its kubelet did not renew it: {journal}; then appliance cluster certificates renew"
    if ending.keeper == "authority":
        return (
            f"kubeadm certs renew does not renew a CA: renew it where it was issued; {PAGE} lists "
            "the issuers"
        )
    return f"appliance cluster certificates renew (what it does: {PAGE})"
