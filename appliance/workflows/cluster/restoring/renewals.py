"""Which kubelets live by their leases, which they renew every ten seconds.

A kubelet writes its node's conditions when they change, and else every five minutes. Every ten
seconds it compares what the API says of its node with what is so. So a node that is Ready, and
whose kubelet lives for longer than that, is Ready.
What must not be here: reading the leases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

# Two comparisons of a kubelet fit into it.
LIVES_SECONDS: Final = 20.0


class Renewals:
    """What the leases said from the first look on; no clock of any machine is compared.

    Attributes:
        alive: nodes whose kubelet renewed its lease for :data:`LIVES_SECONDS` after the first look.
    """

    def __init__(self) -> None:
        self._first: dict[str, datetime | None] = {}
        self._since: dict[str, datetime] = {}
        self.alive: frozenset[str] = frozenset()

    def saw(self, nodes: Collection[str], leases: Mapping[str, datetime]) -> None:
        """Take in one look.

        Args:
            nodes: whose leases are watched.
            leases: node name -> when its kubelet last renewed it, by that node's clock.
        """
        for name in nodes:
            lease = leases.get(name)
            first = self._first.setdefault(name, lease)
            # What the first look saw may be of the snapshot, or of a kubelet that ended since.
            if lease is None or lease == first:
                continue
            since = self._since.setdefault(name, lease)
            if (lease - since).total_seconds() >= LIVES_SECONDS:
                self.alive |= {name}
