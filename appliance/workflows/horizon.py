"""Everything that ends, on one list: one look at the nodes, join tokens, and this machine's files.

What must not be here: what ends when (:mod:`appliance.model.upkeep.horizon`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model.upkeep.horizon.endings import Ending, Seen, horizon
from appliance.workflows.session.survey import look_patiently

if TYPE_CHECKING:
    from appliance.model.bundle.release.release import Release
    from appliance.model.site.settings import Site
    from appliance.model.state.observed import Fault
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class HorizonResult:
    """What ends.

    Attributes:
        endings: the earliest first, what is unknown last.
        faults: the nodes that could not be read.
        now: the clock by which days are counted, UTC epoch seconds.
    """

    endings: tuple[Ending, ...]
    faults: tuple[Fault, ...]
    now: float


def read_horizon(site: Site, release: Release, session: Session) -> HorizonResult:
    """Look at every node once; what cannot be read is in the list as unknown."""
    look = look_patiently(session.nodes, site.nodes)
    answering = [node for node in site.control_plane if node.name in look.node_facts]
    tokens, unread = session.evidence.join_tokens(answering)
    served = session.evidence.served_ends(site.control_plane)
    known = session.control_host.knows(site, opens_vault=False)
    now = session.clock.now()
    brought = session.evidence.brought(site)
    seen = Seen(look, known.certificate, tokens, unread, now, served, brought)
    return HorizonResult(horizon(site, release, seen), look.faults, now)
