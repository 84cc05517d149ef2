"""A BMC's report of its machine. What must not be here: querying the BMC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from appliance.model.state.facts.identity import MachineIdentity, identity, likeness

USER_NAME: Final = "vault_bmc_user"
PASSWORD_NAME: Final = "vault_bmc_password"  # noqa: S105  (the name of a secret)
CA_NAME: Final = "vault_bmc_ca_certificate"


# A password that a BMC is given, or was given: kept until it is the one that lets in.
NEXT_NAME: Final = "vault_bmc_next_password"
# The day on which this tool replaced a password.
CHANGED_NAME: Final = "vault_bmc_changed"


def next_name(node: str) -> str:
    """Name in the vault of the password that a BMC gets while its change is not verified."""
    return f"{NEXT_NAME}_{_suffix(node)}"


def changed_name(node: str) -> str:
    """Name in the vault of the day on which this tool replaced the password of a BMC."""
    return f"{CHANGED_NAME}_{_suffix(node)}"


def vault_names(node: str) -> tuple[str, ...]:
    """Every name in the vault that is about the BMC of one node."""
    return (*login_names(node), next_name(node), changed_name(node))


def _suffix(node: str) -> str:
    return node.replace("-", "_")


def login_names(node: str) -> tuple[str, str]:
    """Names in the vault of the user and password of one node's BMC, before the common ones."""
    suffix = _suffix(node)
    return f"{USER_NAME}_{suffix}", f"{PASSWORD_NAME}_{suffix}"


@dataclass(frozen=True)
class Login:
    """A user of a BMC and the password, which no representation shows."""

    user: str
    password: str = field(repr=False)


def chosen_names(node: str, secrets: Mapping[str, str]) -> tuple[str, str]:
    """Names in the vault of the user and password that a node's BMC is given."""
    own = login_names(node)
    return own if any(secrets.get(name) for name in own) else (USER_NAME, PASSWORD_NAME)


def login_of(node: str, secrets: Mapping[str, str]) -> Login | tuple[str, ...]:
    """The login of the node's own BMC, or else that of every BMC; or which names are missing."""
    names = chosen_names(node, secrets)
    missing = tuple(name for name in names if not secrets.get(name))
    return missing or Login(secrets[names[0]], secrets[names[1]])


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
