"""What a BMC says of its machine. What must not be here: asking it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER_NAME: Final = "vault_bmc_user"
PASSWORD_NAME: Final = "vault_bmc_password"  # noqa: S105  (the name of a secret)
CA_NAME: Final = "vault_bmc_ca_certificate"


@dataclass(frozen=True)
class BmcReport:
    """One answer, or why there is none.

    Attributes:
        serial: of the machine, as Redfish's ComputerSystem has it.
        powered_off: by Redfish's PowerState; on, and on the way there or back, is not off.
        reason: why nothing is known; empty when it answered.
    """

    serial: str | None = None
    powered_off: bool = False
    reason: str = ""

    def proves_off(self, serial: str | None) -> bool:
        """Whether it speaks of the machine with this serial, and says that it is off."""
        return self.powered_off and bool(serial) and self.serial == serial
