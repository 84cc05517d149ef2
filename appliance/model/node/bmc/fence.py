"""Fencing by power: whether a lost node's BMC may cut its power, and what is said of that.

What must not be here: asking a BMC; what else shows that a machine is off
(:mod:`appliance.model.node.fencing`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from appliance.model.node.bmc.power import PowerOptions, PowerSeen, refusals
from appliance.model.node.fencing import DEAD
from appliance.model.state.plan import Refusal

# The node is given up: its pods are not asked to end, and neither is its operating system.
CUT: Final = PowerOptions("off", hard=True, allow_outage=True)


@dataclass(frozen=True)
class Fence:
    """What a lost node's BMC can do about it.

    Attributes:
        seen: the machine as its BMC reports it, and the accepted one; None where none was read.
        unread: why its BMC was not read; empty where it was, and where the inventory has none.
        signs: that the machine is not dead after all, one sentence each.
    """

    node: str
    seen: PowerSeen | None = None
    unread: str = ""
    signs: tuple[str, ...] = ()

    @property
    def is_ordered(self) -> bool:
        """Whether its power is cut."""
        return self.seen is not None and not self.seen.is_done(CUT) and not self.refusals()

    @property
    def is_off(self) -> bool:
        """Whether the accepted machine's own BMC reports that it is off already."""
        return self.seen is not None and self.seen.is_done(CUT) and not self.refusals()

    def refusals(self) -> tuple[Refusal, ...]:
        """Why its BMC neither cuts its power nor shows that it is off; none where none was read."""
        if self.seen is None:
            return ()
        return tuple(replace(one, hint=self._by_hand) for one in refusals(self.seen, CUT))

    @property
    def _by_hand(self) -> str:
        return (
            f"correct bmc_address or bmc_system in host_vars/{self.node}.yml; or power the machine "
            f"off by hand, verify that it is off, and run the same command with {DEAD}"
        )

    def sentence(self) -> str:
        """What will be done, or what its BMC says, for the question."""
        name = self.node
        if self.unread:
            return f"{name}: its BMC could not be read ({self.unread}): make sure that it is off"
        if self.seen is None:
            return f"{name}: the inventory has no BMC for it: make sure yourself that it is off"
        words = self.seen.machine.identity.words()
        if self.seen.is_done(CUT):
            return f"{name}: its BMC ({words}) reports power off"
        power = self.seen.machine.power or "unknown"
        said = f"{name}: power off {name} by its BMC ({words}), which reports power {power}"
        return f"{said}; warning: it is not dead: {'; '.join(self.signs)}" if self.signs else said
