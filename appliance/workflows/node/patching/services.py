"""What the services node offers to others: the bundle, the registry, shared storage, time.

A boot can lose each of them: a unit that does not start, a disk that is not mounted. What must not
be here: what is asked of the node itself (:mod:`appliance.model.patch.proof`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.plan.judging import judge
from appliance.model.plan.steps import INSTALL
from appliance.model.state.observed import Observed

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.workflows.session.session import Session


def lacking(desired: Desired, session: Session, known: Observed) -> tuple[str, ...]:
    """A sentence for each post-condition of an install that the services node does not meet.

    Args:
        desired: the site.
        session: the ports of the site.
        known: an earlier look; the services node and the control planes are looked at again.
    """
    site = desired.site
    node = site.services_node
    look = session.nodes.look(list(dict.fromkeys([node, *site.control_plane])))
    if silent := [fault.reason for fault in look.faults if fault.node == node.name]:
        return tuple(silent)
    facts = {**known.node_facts, **look.node_facts}
    observed = Observed(facts, session.cluster.read(facts), look.faults)
    only = frozenset({node.name})
    return tuple(
        sentence
        for step in INSTALL
        if node in step.nodes(site)
        for sentence in judge(step, desired, observed, only).sentences()
    )
