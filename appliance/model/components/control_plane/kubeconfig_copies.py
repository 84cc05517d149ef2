"""The copies of the administrator's kubeconfig that an install or a renewal writes.

What must not be here: how a copy is read and tested (an adapter), or how it is written (role
``kubeadm_control_plane``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# What writes every copy again; a second run of it changes nothing.
CURE: Final = "appliance install --only control_plane"


@dataclass(frozen=True)
class KubeconfigCopy:
    """One copy, and what one request with its credentials showed.

    Attributes:
        place: where it lies, e.g. ``cp1:/home/ubuntu/.kube/config``.
        problem: why the API does not accept it; empty where it does.
        may_pass: the problem is of a server that does not answer, as one that starts does not.
        is_ours: whether the tool wrote it; another's is not tested, and stays as it is.
    """

    place: str
    problem: str = ""
    is_ours: bool = True
    may_pass: bool = False
