"""What workflows need of a BMC that obeys, as Protocols."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.node.bmc.orders import (
        BmcMachine,
        BootOverride,
        BootSource,
        Medium,
        PowerOrder,
    )
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.identity import MachineIdentity


class DrivenBmc(Protocol):
    """One BMC that let us in. Each order returns only what was observed after it.

    Every order raises BmcRefused where the BMC has no such order or refused it, and StepNotVerified
    where it accepted and its effect was not observed in time. What only looks raises
    NodeUnreachable where the BMC does not answer.
    """

    def machine(self) -> BmcMachine:
        """The machine as the BMC reports it now."""

    def require(self, accepted: MachineIdentity) -> BmcMachine:
        """The machine, if it is this one; raises Refused where it is not, or cannot be told."""

    def power(
        self,
        order: PowerOrder,
        seconds: float | None = None,
        wanted: Callable[[], bool] = ...,
    ) -> BmcMachine:
        """Bring the power to a state; nothing is sent where it is already there."""

    def media(self) -> tuple[Medium, ...]:
        """Its virtual media."""

    def insert(self, url: str) -> Medium:
        """Insert an image as a disc; what is inserted in its place is ejected first."""

    def eject(self) -> tuple[Medium, ...]:
        """Eject every disc that is inserted; those that were."""

    def boot_once(self, source: BootSource) -> BootOverride:
        """Let the next boot, and only that one, come from a source."""

    def clear_boot(self) -> BmcMachine:
        """Remove the override of the boot source."""


class BmcDriver(Protocol):
    """The BMCs of a site, to be driven. Several threads may drive several BMCs at once."""

    def open(self, node: Node) -> AbstractContextManager[DrivenBmc]:
        """The node's BMC for as long as a block lasts.

        Raises:
            Refused: the inventory has no BMC for the node.
            NodeUnreachable: it was not reached, or did not let us in.
        """
