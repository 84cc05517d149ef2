"""A BMC's report of its machine. What must not be here: querying the BMC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from appliance.model.state.facts.identity import MachineIdentity, identity, likeness

USER_NAME: Final = "vault_bmc_user"
PASSWORD_NAME: Final = "vault_bmc_password"  # noqa: S105  (the name of a secret)
CA_NAME: Final = "vault_bmc_ca_certificate"


def login_names(node: str) -> tuple[str, str]:
    """Names in the vault of the user and password of one node's BMC, before the common ones."""
    suffix = node.replace("-", "_")
    return f"{USER_NAME}_{suffix}", f"{PASSWORD_NAME}_{suffix}"


@dataclass(frozen=True)
class BmcReport:
    """One answer, or why there is none.

    Attributes:
        serial: of the machine, as Redfish's ComputerSystem has it.
        uuid: likewise. A BMC that swaps the bytes of its first three groups is of no help.
        powered_off: by Redfish's PowerState; on, and on the way there or back, is not off.
        reason: why nothing is known; empty when it answered.
    """

    serial: str | None = None
    powered_off: bool = False
    reason: str = ""
    uuid: str | None = None

    @property
    def machine(self) -> MachineIdentity:
        """Of which machine it speaks; what nobody filled in is left out."""
        return identity(self.serial, self.uuid)

    def speaks_of(self, accepted: MachineIdentity) -> bool:
        """Whether it is the BMC of this machine."""
        return likeness(accepted, self.machine) == "same"

    def confirms_off(self, accepted: MachineIdentity) -> bool:
        """Whether it speaks of this machine, and says that it is off."""
        return self.powered_off and self.speaks_of(accepted)


def power_of_lost(name: str, report: BmcReport | None) -> str:
    """What its BMC says of a machine that is given up for now: it may still run and write."""
    cut = f"cut its power first: appliance node power off {name} --hard --allow-outage"
    if report is None:
        return f"{name}: the inventory has no BMC for it: make sure yourself that it is off"
    if report.reason:
        return f"{name}: its BMC could not be read ({report.reason}): make sure that it is off"
    words = report.machine.words()
    if report.powered_off:
        return f"{name}: its BMC ({words}) reports power off"
    return f"warning: {name}: its BMC ({words}) reports power on: it may still write; {cut}"
