"""Cut the power of a lost node by its BMC, before anything is done that needs it to be off.

What must not be here: nodes that work (:mod:`appliance.workflows.node.power`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, PreflightFailed, StepNotVerified
from appliance.model.node.accepted import accepted_of
from appliance.model.node.answering import NO_ANSWER, AnsweringMachine
from appliance.model.node.bmc.fence import CUT, Fence
from appliance.model.node.bmc.power import PowerSeen
from appliance.model.node.fencing import DEAD
from appliance.model.state.cluster.cluster import Cluster
from appliance.workflows.node.maintenance.at_once import STOP_SECONDS, at_once
from appliance.workflows.node.maintenance.surroundings import known_machines
from appliance.workflows.node.maintenance.switching import PowerChange, switch

if TYPE_CHECKING:
    from appliance.model.node.membership import Removal
    from appliance.model.site.settings import Node
    from appliance.model.state.cluster.cluster import ClusterNode
    from appliance.workflows.session.session import Session


def look_at_fence(
    node: Node,
    member: ClusterNode | None,
    machine: AnsweringMachine,
    session: Session,
    removed: Removal | None = None,
) -> Fence:
    """What the BMC of a lost node can do about it. Changes nothing, and never raises for a BMC.

    Args:
        node: with or without a BMC in the inventory.
        member: its Node object.
        machine: what answers at its address.
        session: the session.
        removed: the record of an earlier removal.
    """
    if node.bmc_address is None:
        return Fence(node.name)
    known, _ = known_machines(session)
    try:
        with session.driver.open(node) as bmc:
            found = bmc.machine()
    except ApplianceError as error:
        return Fence(node.name, unread=error.message.removeprefix(f"{node.name}: "))
    lies = found.is_after("cut") and session.power.answers(node)
    seen = PowerSeen(
        node.name,
        found,
        accepted_of(node.name, member, known.get(node.name), removed).machine,
        {name: one for name, one in known.items() if name != node.name},
        answers=str(node.ip) if lies else "",
    )
    return Fence(node.name, seen, signs=tuple(_signs(member, machine)))


def require_possible(fence: Fence) -> None:
    """Refuse where the BMC that was read is of no use.

    Raises:
        PreflightFailed: it reports another machine, or accepts no such order; nothing was changed.
    """
    if found := fence.refusals():
        first, *others = found
        raise PreflightFailed(
            first.sentence(), hint=first.hint, details=[one.sentence() for one in others]
        )


def cut_power(
    node: Node, fence: Fence, step: str, session: Session, require_lost: Callable[[], None]
) -> str:
    """Cut the power, and wait until its BMC reports that it is off; what was observed.

    Args:
        node: the lost one.
        fence: as it was shown.
        step: its name for the observer.
        session: the session.
        require_lost: looks a last time whether the node came back, and raises then.

    Raises:
        StepNotVerified: it is not known to be off; whoever called deletes nothing.
    """
    require_lost()
    assert fence.seen is not None  # noqa: S101  (for the type checker)
    change = PowerChange(node, CUT.orders, fence.seen.machine.identity, step)
    try:
        ((_, evidence),) = at_once(
            (node,), lambda _, stop: switch(change, session, session.driver, stop), STOP_SECONDS
        )
    except ApplianceError as error:
        raise StepNotVerified(
            error.message,
            hint="no pod and no Node object was deleted; run the same command again; or cut its "
            f"power by hand, verify that it is off, and run the same command with {DEAD}",
            details=(*([error.hint] if error.hint else []), *error.details),
        ) from error
    return evidence


def _signs(member: ClusterNode | None, machine: AnsweringMachine) -> Iterator[str]:
    """Signs of life, which a person must see before the power is cut."""
    if not machine.answer.startswith(NO_ANSWER):
        yield f"a machine answers at {machine.address} ({machine.answer})"
    if member is not None and member.kubelet_speaks:
        yield f"its kubelet reports: {member.not_ready_reason}"


def require_not_ready(node: Node, state: object) -> None:
    """A node that came back keeps its power, and its name.

    Args:
        node: whose power would be cut.
        state: the cluster as it was read last.

    Raises:
        StepNotVerified: it did, or the cluster cannot tell.
    """
    member = state.nodes.get(node.name) if isinstance(state, Cluster) else None
    if member is None or member.ready:
        seen = "the node is Ready again" if member else "the cluster does not tell its state"
        raise StepNotVerified(
            f"{node.name}: {seen}, so its power was not cut",
            hint="see what is wrong: appliance status; then run the same command again",
        )
