"""The socket of the container runtime that a node has, which its release need not be.

In the middle of an upgrade site.yml names the new release, while some nodes still run the old
runtime. ``kubeadm reset`` stops pods through the socket that it is given: with another one it stops
none. What must not be here: which runtime a release wants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.model.bundle.release.release import Runtime
    from appliance.model.state.cluster.cluster import ClusterNode
    from appliance.model.state.facts.facts import NodeFacts

# kubeadm notes the socket of a member there: cmd/kubeadm/app/constants, AnnotationKubeadmCRISocket.
ANNOTATION: Final = "kubeadm.alpha.kubernetes.io/cri-socket"
_SOCKET: Final = re.compile(r"(unix://)?/[\w./-]+\.sock", re.ASCII)


def cri_socket(
    member: ClusterNode | None, facts: NodeFacts | None, runtimes: Sequence[Runtime]
) -> str:
    """The socket to reset a machine with.

    Args:
        member: its Node object: its kubelet reports there which runtime it talks to.
        facts: the machine's; asked where there is no Node object any more.
        runtimes: that of the site's release, which counts where nothing tells another one; then
            those of other releases, which the machine may still have.
    """
    wanted = runtimes[0]
    of = {_program(one.socket): one.name for one in runtimes}
    told = member.runtime.partition("://")[0] if member else ""
    name = told or _running(facts) or wanted.name
    noted = member.annotations.get(ANNOTATION, "") if member else ""
    # Its own kubelet may write the annotation: only a socket of the reported runtime counts.
    if _SOCKET.fullmatch(noted) and of.get(_program(noted)) == name:
        return noted
    return next((one.socket for one in runtimes if one.name == name), wanted.socket)


def _program(socket: str) -> str:
    """The name of a socket, which is its program's wherever it lies."""
    return socket.rpartition("/")[2]


def _running(facts: NodeFacts | None) -> str:
    """The runtime whose pods run, by containerd's namespaces; empty where that is not clear.

    Docker runs its containers in a containerd as well, in the namespace ``moby``.
    """
    namespaces = set(facts.at("runtime.containerd.namespaces") or ()) if facts else set()
    if facts and (facts.at("runtime.docker.version") or "moby" in namespaces):
        return "docker" if "k8s.io" not in namespaces else ""
    return "containerd" if "k8s.io" in namespaces else ""
