"""Orders for the power of one node by its BMC, until the last is observed by two witnesses.

What must not be here: whether the power may be changed, and more than one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Final

from appliance.errors import StepNotVerified

if TYPE_CHECKING:
    from appliance.model.node.bmc.orders import BmcMachine, PowerOrder
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.identity import MachineIdentity
    from appliance.workflows.node.maintenance.driving import BmcDriver
    from appliance.workflows.session.session import Session

# How long a machine whose BMC reports power off may still answer.
SILENCE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True)
class PowerChange:
    """The orders for one node.

    Attributes:
        orders: in turn, at least one; each is observed before the next.
        expected: the machine that the BMC reported before the question; not compared where it
            tells nothing.
        step: its name for the observer.
    """

    node: Node
    orders: Sequence[PowerOrder]
    expected: MachineIdentity
    step: str


def switch(
    change: PowerChange, session: Session, driver: BmcDriver, stop: Event
) -> tuple[BmcMachine, str]:
    """Send the orders; the machine after the last, and what was observed, in words.

    Args:
        change: what is ordered.
        session: the session.
        driver: the BMCs.
        stop: set after Ctrl-C; no order is sent then.

    Raises:
        NodeUnreachable: its BMC was not reached.
        Refused: its BMC reports another machine by now.
        BmcRefused: its BMC refused an order.
        StepNotVerified: an order had no effect, or the machine answers although it is off.
    """
    node, machine = change.node, None
    with driver.open(node) as bmc:
        if change.expected.is_told:
            bmc.require(change.expected)
        for order in change.orders:
            if stop.is_set():
                raise StepNotVerified(f"{node.name}: interrupted")
            session.observer.verifying(change.step, f"{node.name}: power {order}")
            machine = bmc.power(order, wanted=lambda: not stop.is_set())
            if order != "on":
                _require_silence(node, session)
    assert machine is not None  # noqa: S101  (there is at least one order)
    said = f"its BMC ({machine.identity.words()}) reports power {machine.power}"
    silent = f"; nothing answers at {node.ip}" if machine.power == "Off" else ""
    return machine, f"{said}{silent}"


def _require_silence(node: Node, session: Session) -> None:
    """A BMC that lies: the machine still answers.

    Raises:
        StepNotVerified: it does.
    """
    clock = session.clock
    ends = clock.monotonic() + SILENCE_SECONDS
    while session.power.answers(node):
        if clock.monotonic() >= ends:
            raise StepNotVerified(
                f"{node.name}: its BMC reports power off, but {node.ip} still answers",
                hint="its bmc_address may be another machine's, or two machines have one "
                "address: look at its power LED",
            )
        clock.sleep(_POLL_SECONDS)
