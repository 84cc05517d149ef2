"""Orders for a BMC, and whether what it reports afterwards is what was ordered.

The words of the reports are Redfish's (DMTF DSP0268: Resource.PowerState, Resource.ResetType,
ComputerSystem.Boot, VirtualMedia). What must not be here: sending an order, and waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from appliance.model.node.bmc.report import BmcReport
from appliance.model.state.facts.identity import MachineIdentity, identity

# "cut" takes the power away; "off" lets the operating system stop first.
PowerOrder = Literal["on", "off", "cut"]
BootSource = Literal["cd", "pxe", "disk"]

_RESETS: Final[dict[PowerOrder, tuple[str, ...]]] = {
    "on": ("On", "ForceOn"),
    "off": ("GracefulShutdown",),
    "cut": ("ForceOff",),
}
_SOURCES: Final[dict[BootSource, tuple[str, ...]]] = {
    "cd": ("Cd", "UsbCd"),
    "pxe": ("Pxe",),
    "disk": ("Hdd",),
}
_DISCS: Final = frozenset({"CD", "DVD"})
# How often one order is sent: a BMC that is busy may forget it.
MOST_ORDERS: Final = 3
# An order that shows no effect for so long is sent again. Some BMCs report power 60 s late.
AGAIN_SECONDS: Final = 75.0
# How long an order may take until it is observed.
POWER_SECONDS: Final[dict[PowerOrder, float]] = {"on": 180.0, "off": 300.0, "cut": 180.0}
MEDIA_SECONDS: Final = 60.0
BOOT_SECONDS: Final = 30.0


@dataclass(frozen=True)
class BmcMachine:
    """A machine as its BMC reports it. What the BMC does not tell is None or empty.

    Attributes:
        power: Redfish's PowerState: On, Off, PoweringOn, PoweringOff, Paused.
        resets: the ResetTypes that it accepts; empty where it does not list them.
        boot: BootSourceOverrideTarget.
        boot_enabled: BootSourceOverrideEnabled: Disabled, Once or Continuous.
        boot_sources: the targets that it accepts; empty where it does not list them.
    """

    serial: str | None = None
    uuid: str | None = None
    manufacturer: str | None = None
    model: str | None = None
    power: str | None = None
    resets: tuple[str, ...] = ()
    boot: str | None = None
    boot_enabled: str | None = None
    boot_sources: tuple[str, ...] = ()

    @property
    def identity(self) -> MachineIdentity:
        """Of which machine it speaks."""
        return identity(self.serial, self.uuid)

    @property
    def report(self) -> BmcReport:
        """The same, as fencing needs it."""
        return BmcReport(self.serial, powered_off=self.power == "Off", uuid=self.uuid)

    def is_after(self, order: PowerOrder) -> bool:
        """Whether the power is what was ordered; on the way there is not there."""
        return self.power == ("On" if order == "on" else "Off")


@dataclass(frozen=True)
class Medium:
    """One virtual medium.

    Attributes:
        name: its Id.
        types: its MediaTypes; empty where they are not told.
        image: the URI of the image; None for none, and where the BMC does not tell it.
        inserted: None where the BMC does not tell.
    """

    name: str
    types: tuple[str, ...] = ()
    image: str | None = None
    inserted: bool | None = None

    @property
    def is_disc(self) -> bool:
        """Whether an ISO can be inserted."""
        return bool(_DISCS & set(self.types))

    @property
    def is_taken(self) -> bool:
        """Whether something is inserted."""
        return bool(self.inserted or self.image)

    @property
    def is_taken_disc(self) -> bool:
        """Whether a machine may boot from what is inserted."""
        return self.is_taken and (self.is_disc or not self.types)

    def holds(self, url: str) -> bool:
        """Whether this image is inserted, as far as the BMC tells.

        Some BMCs report that a medium is inserted, and not which one.
        """
        if self.image:
            return self.image == url and self.inserted is not False
        return self.inserted is True

    def words(self) -> str:
        """What the BMC tells of it."""
        if self.is_taken:
            return f"{self.name}: inserted: {self.image or 'an image that the BMC does not name'}"
        return f"{self.name}: nothing inserted"


@dataclass(frozen=True)
class BootOverride:
    """The next boot, as the BMC reports it after the order.

    Attributes:
        stays: it reports a Continuous override although one boot was ordered: whoever ordered it
            must clear it, or the machine boots from there for ever.
    """

    source: str
    stays: bool


def reset_of(order: PowerOrder, resets: tuple[str, ...]) -> str | None:
    """The ResetType to send; None where the BMC accepts none that does this.

    PushPowerButton is never sent: what it does depends on a state that may be reported late.
    """
    wanted = _RESETS[order]
    if not resets:
        return wanted[0]
    return next((one for one in wanted if one in resets), None)


def boot_target(source: BootSource, targets: tuple[str, ...]) -> str | None:
    """The BootSourceOverrideTarget to send; None where the BMC has no such source."""
    wanted = _SOURCES[source]
    if not targets:
        return wanted[0]
    return next((one for one in wanted if one in targets), None)


def boot_override(machine: BmcMachine, target: str) -> BootOverride | None:
    """The override, if the BMC reports the one that was ordered; None otherwise."""
    if machine.boot != target or machine.boot_enabled not in ("Once", "Continuous"):
        return None
    return BootOverride(target, stays=machine.boot_enabled == "Continuous")


def disc_of(media: tuple[Medium, ...]) -> Medium | None:
    """The medium for an ISO: one that tells it is a disc, an empty one first."""
    discs = [one for one in media if one.is_disc]
    if not discs:
        discs = [one for one in media if not one.types]
    return min(discs, key=lambda one: one.is_taken, default=None)
