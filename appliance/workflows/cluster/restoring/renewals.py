"""Which kubelets live by their leases, which they renew every ten seconds.

A kubelet writes its node's conditions when they change, and else every five minutes. Every ten
seconds it compares what the API says of its node with what is so. So a node that is Ready, and
whose kubelet lives for longer than that, is Ready.
What must not be here: reading the leases.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

# Two comparisons of a kubelet fit into it.
LIVES_SECONDS: Final = 20.0
# As many renewals after the first are two intervals, also where a node's clock was set meanwhile.
LIVES_RENEWALS: Final = 2


class Renewals:
    """What the leases said from the first look on; no clock of any machine is compared.

    Attributes:
        alive: nodes whose kubelet renewed its lease for :data:`LIVES_SECONDS` after the first look,
            by :data:`LIVES_RENEWALS` or more.
    """

    def __init__(self) -> None:
        self._first: dict[str, datetime | None] = {}
        self._seen: dict[str, list[datetime]] = {}
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
            seen = self._seen.setdefault(name, [])
            if lease not in seen:
                seen.append(lease)
            # A clock that was set back takes nothing away.
            steps = ((two - one).total_seconds() for one, two in pairwise(seen))
            lived = sum(max(step, 0.0) for step in steps)
            if lived >= LIVES_SECONDS and len(seen) > LIVES_RENEWALS:
                self.alive |= {name}
