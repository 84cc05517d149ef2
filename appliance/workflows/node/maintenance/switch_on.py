"""Switch on a node in maintenance that does not answer, if its BMC says that it is off.

What must not be here: waiting until the node answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable
from appliance.workflows.node.baselines import read_passport

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.workflows.node.maintenance.driving import BmcDriver
    from appliance.workflows.session.session import Session


def switch_on(
    node: Node, session: Session, driver: BmcDriver, agree: Callable[[str], bool]
) -> None:
    """Switch the node on, if the BMC reports its machine off and the operator agrees.

    Where the BMC does not answer, or reports another machine, a note says so: somebody may press
    the button.

    Raises:
        NodeUnreachable: the control-plane nodes do not answer; nothing was changed.
        BmcRefused, StepNotVerified: the node could not be switched on.
    """
    if node.bmc_address is None:
        return
    passport = read_passport(session.archive, node.name)
    try:
        with driver.open(node) as bmc:
            machine = bmc.machine()
            report = machine.report
            if passport is None or not report.confirms_off(passport.machine):
                said = f"reports power {machine.power or 'unknown'} ({machine.identity.words()})"
                session.observer.note(f"{node.name}: its BMC {said}: it is not switched on")
                return
            if agree(f"{node.name}: its BMC ({report.machine.words()}) reports power off"):
                bmc.require(passport.machine)
                bmc.power("on")
                session.observer.note(f"{node.name}: switched on: its BMC reports power on")
    except NodeUnreachable as error:
        session.observer.note(f"it is not switched on: {error.message}")
