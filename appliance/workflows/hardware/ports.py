"""What workflows of hardware need of BMCs and of the site's vault, as Protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.node.bmc.bios import BiosState
    from appliance.model.node.bmc.bios_registry import BiosValue
    from appliance.model.node.bmc.orders import BmcMachine, PowerOrder
    from appliance.model.node.bmc.password import Account
    from appliance.model.node.bmc.report import Login
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.identity import MachineIdentity


class BiosBmc(Protocol):
    """One BMC that let us in, and the BIOS settings of its machine.

    An order raises BmcRefused where the BMC refused it, and StepNotVerified where its effect was
    not observed in time. What only looks raises NodeUnreachable where the BMC does not answer.
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

    def bios(self) -> BiosState:
        """The settings, and the rules of its registry."""

    def bios_now(self) -> BiosState:
        """The settings without the registry."""

    def order_bios(self, values: Mapping[str, BiosValue], shown: BiosState) -> None:
        """Order settings for the next start, unless what waits there is not what was shown."""


class BiosDriver(Protocol):
    """The BMCs of a site. Several threads may drive several BMCs at once."""

    def open(self, node: Node) -> AbstractContextManager[BiosBmc]:
        """Open a node's BMC; raises Refused without one, NodeUnreachable where it stays closed."""


class BmcAccounts(Protocol):
    """The accounts of one BMC. No password is in any of its errors."""

    def see(self, login: Login) -> Account:
        """The account of a user, and the rules for its password.

        Raises NodeUnreachable where the BMC does not answer, with ``answers`` where it refused the
        login; Refused where it lists no such account.
        """

    def replace(self, account: Account, login: Login, new: str) -> None:
        """Give an account a new password; only a login proves that it was taken.

        Raises BmcRefused where the BMC refused, NodeUnreachable where nobody knows.
        """

    def lets_in(self, account: Account, login: Login) -> bool:
        """Whether a login works; raises NodeUnreachable where the BMC does not say."""


class AccountDriver(Protocol):
    """The accounts of a site's BMCs."""

    def open(self, node: Node) -> AbstractContextManager[BmcAccounts]:
        """Those of a node's BMC; raises Refused where the inventory has none for it."""


class SecretStore(Protocol):
    """The vault of a site."""

    def read(self) -> Mapping[str, str]:
        """The secrets as they are now; raises ConfigError or Refused where it does not open."""

    def read_anew(self) -> Mapping[str, str]:
        """The same, with what other programs wrote since."""

    def change(self, changes: Mapping[str, str | None]) -> None:
        """Set secrets, or take them out; they are on the disk when this returns."""
