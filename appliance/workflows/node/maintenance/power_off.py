"""The evidence that a node is off: people open a chassis because of it.

One connection that fails shows nothing: sshd ends early in a shutdown, a switch port flaps, and a
laptop that wakes has no network yet. So a node is off when nothing has answered for some seconds,
while another node did, and either its BMC says so or the machine had taken the order. A BMC that
says otherwise is believed. What must not be here: giving the order, and who may be shut down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, StepNotVerified
from appliance.model.state.facts.identity import MachineIdentity, likeness
from appliance.workflows.session.patience import Patience

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site
    from appliance.workflows.session.ports import Bmcs, Clock, Observer, Power

SHUTDOWN_SECONDS = 300.0
SILENT_SECONDS = 10.0
BETWEEN_LOOKS = 2.0
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class PowerState:
    """What was seen of a node's power.

    Attributes:
        off: it is known to be off.
        words: what was seen.
        answers: something answered at its address.
    """

    off: bool
    words: str
    answers: bool = False


@dataclass(frozen=True)
class PowerWatch:
    """Looks whether one node is off.

    Attributes:
        accepted: which machine is known under the node's name; asked only when its BMC answered.
    """

    site: Site
    node: Node
    power: Power
    bmcs: Bmcs
    clock: Clock
    observer: Observer
    accepted: Callable[[], MachineIdentity]

    def look(self, ordered: str | None) -> PowerState:
        """Whether it is off; takes a moment when it answers, and some seconds when it does not.

        Args:
            ordered: when the machine took the order to power off; None when none is known.
        """
        began = self.clock.monotonic()
        while True:
            if self.power.answers(self.node):
                return PowerState(False, f"{self.node.name} answers", answers=True)
            if not self._reaches_another():
                return PowerState(False, "no other node of the site answers this machine either")
            silent = self.clock.monotonic() - began
            if silent >= SILENT_SECONDS:
                break
            self.clock.sleep(BETWEEN_LOOKS)
        silence = f"nothing answered at its address for {silent:.0f} s"
        off, said = self._bmc_says()
        if off is not None:
            return PowerState(off, f"{said}; {silence}")
        if ordered is None:
            return PowerState(False, f"{silence}, but no accepted shutdown is recorded; {said}")
        return PowerState(
            True,
            f"it accepted the shutdown at {ordered}; {silence}; {said}: "
            "look at its power LED before you open it",
        )

    def wait(self, ordered: str) -> str:
        """Wait until it is off after the order; what was seen.

        Raises:
            StepNotVerified: it is not known to be off after :data:`SHUTDOWN_SECONDS`.
        """
        patience = Patience(self.clock, SHUTDOWN_SECONDS)
        while not (seen := self.look(ordered)).off:
            if patience.is_over():
                after = f"{SHUTDOWN_SECONDS:.0f} s after the shutdown"
                raise StepNotVerified(
                    f"{self.node.name}: still answers {after}"
                    if seen.answers
                    else f"{self.node.name}: not confirmed off {after}: {seen.words}",
                    hint="check its console; the node is empty: power it off with BMC or button",
                )
            self.observer.verifying("maintain: shutdown", "power-off of the node")
            self.clock.sleep(POLL_SECONDS)
        return seen.words

    def _reaches_another(self) -> bool:
        """Whether this machine's network works: another node answers, or there is none to ask."""
        nodes = (*self.site.control_plane, *self.site.nodes)
        others = [one for one in dict.fromkeys(nodes) if one.name != self.node.name]
        return not others or any(self.power.answers(other) for other in others)

    def _bmc_says(self) -> tuple[bool | None, str]:
        """Whether its BMC says that it is off, None where that says nothing; and the words."""
        report = self.bmcs.report(self.node)
        if report is None:
            return None, "the inventory has no BMC for it"
        if report.reason:
            return None, f"its BMC could not be read: {report.reason}"
        like = likeness(self._machine(), report.machine)
        if like == "another":
            return None, "the BMC at its bmc_address reports another machine"
        if not report.powered_off:
            return False, "its BMC reports power on"
        if like == "same":
            return True, "its BMC reports power off"
        return None, "its BMC reports power off, but no serial to identify the machine"

    def _machine(self) -> MachineIdentity:
        try:
            return self.accepted()
        except ApplianceError:
            return MachineIdentity()
