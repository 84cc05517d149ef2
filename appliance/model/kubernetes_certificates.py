"""When the certificates of Kubernetes on a node end, who renews which, and what is to be typed.

kubeadm's last a year and nobody renews them unasked. The kubelet renews its own when 10 to 30 % of
its time is left: that one says something only when the kubelet failed to. Authorities, which last
ten years, and CAs that somebody brought are not renewed by ``kubeadm certs renew``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from appliance.model.groups import CONTROL_PLANE
from appliance.model.pages import page
from appliance.model.site_certificate import days_left
from appliance.model.ssh_command import ssh_command

if TYPE_CHECKING:
    from appliance.model.photograph import Photograph
    from appliance.model.site import Node, Site

KUBELETS = frozenset(
    {"/var/lib/kubelet/pki/kubelet-client-current.pem", "/etc/kubernetes/kubelet.conf"}
)
KUBELET_DAYS = 7
PAGE = page("renew-kubernetes-certificates")
# dockershim names a container k8s_<container>_<pod>_...; the kubelet starts what was stopped again.
RESTART = (
    "'for c in etcd kube-apiserver kube-controller-manager kube-scheduler; do "
    "sudo docker stop $(sudo docker ps -qf name=k8s_${c}_); sleep 30; done'"
)

Keeper = Literal["kubeadm", "kubelet", "authority"]


@dataclass(frozen=True)
class Ending:
    """One certificate of Kubernetes on a node.

    Attributes:
        path: the file that holds it: a certificate, or a kubeconfig.
        day: when it ends, e.g. ``2027-06-01``.
        left: how many days it is still good for, by the node's clock.
        keeper: who renews it.
    """

    path: str
    day: str
    left: float
    keeper: Keeper

    @property
    def is_left_alone(self) -> bool:
        """Whether its keeper has time to renew it unasked."""
        return self.keeper == "kubelet" and self.left >= KUBELET_DAYS

    @property
    def ends(self) -> str:
        """When it ends, for people."""
        if self.left < 0:
            return f"ended {-self.left:.0f} days ago"
        return f"ends in {self.left:.0f} days"


def endings(photo: Photograph) -> tuple[Ending, ...]:
    """The certificates and kubeconfigs of which the end was seen, the first one first."""
    return tuple(sorted(_endings(photo), key=lambda ending: (ending.left, ending.path)))


def _endings(photo: Photograph) -> Iterator[Ending]:
    for seen in (*photo.items("kubernetes.pki"), *photo.items("kubernetes.kubeconfigs")):
        path, end = str(seen.get("path")), seen.get("not_after")
        left = days_left(photo, end)
        if left is not None:
            yield Ending(path, str(end)[:10], left, _keeper(path))


def _keeper(path: str) -> Keeper:
    if path in KUBELETS:
        return "kubelet"
    return "authority" if PurePosixPath(path).stem.endswith("ca") else "kubeadm"


def cure(site: Site, node: Node, ending: Ending) -> str:
    """What to type, from the first command to the last."""
    if ending.keeper == "kubelet":
        return _kubelets_cure(site, node, ending)
    if ending.keeper == "authority":
        return (
            f"kubeadm certs renew does not renew an authority: give it to who made it, {PAGE} "
            "says which is whose"
        )
    kubeconfig = site.state_directory / "kubeconfig"
    fetch = ssh_command(site, node, "sudo cat /etc/kubernetes/admin.conf")
    own = "'sudo cat /etc/kubernetes/admin.conf > ~/.kube/config'"
    return "; then ".join(
        (
            ssh_command(site, node, "sudo kubeadm certs renew all"),
            f"one control-plane node at a time: {ssh_command(site, node, RESTART)}",
            f"the kubeconfigs made from it again: {fetch} > {kubeconfig}",
            f"{ssh_command(site, node, own)} ({PAGE})",
        )
    )


def _kubelets_cure(site: Site, node: Node, ending: Ending) -> str:
    """A kubelet asks the API for another by the one it has: an ended one is of no use for that."""
    journal = ssh_command(site, node, "'sudo journalctl -u kubelet | grep -i certificate'")
    if ending.left >= 0:
        restart = ssh_command(site, node, "sudo systemctl restart kubelet")
        return f"its kubelet did not renew it: {journal}; then {restart}, and kubectl get csr"
    if CONTROL_PLANE in node.groups:
        return f"its kubelet did not renew it: {journal}; give it another as {PAGE} says"
    return (
        f"its kubelet did not renew it: {journal}; give the node another: "
        f"appliance node remove {node.name}, then appliance node rejoin {node.name}"
    )
