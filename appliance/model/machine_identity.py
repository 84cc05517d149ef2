"""What tells one machine from another: its serial, or what else its firmware and its NICs tell.

The DMI serial decides where both sides tell it. On a board whose vendor filled in none, the UUID
and the serials of board and chassis do, each compared only with its own kind. NICs move between
machines: they may say that it is the same machine, never that it is another one.
What must not be here: where an identity is kept, and whose word it is (:mod:`.accepted`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from appliance.model.placeholders import told_serial, told_uuid
from appliance.model.typed_json import Line

if TYPE_CHECKING:
    from appliance.model.photograph import Photograph

# Annotations of a Node object, written where the machine tells no serial.
UUID_ANNOTATION: Final = "appliance.dev/product-uuid"
BOARD_ANNOTATION: Final = "appliance.dev/board-serial"
CHASSIS_ANNOTATION: Final = "appliance.dev/chassis-serial"
MACS_ANNOTATION: Final = "appliance.dev/macs"
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NO_MACS: Final = frozenset({"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"})
MOST_MACS: Final = 64
MOST_LETTERS: Final = 20 * MOST_MACS
_LINE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,1000}")

# "nics": only its NICs say that it is the same. "unknown" is neither the same nor another one.
Likeness = Literal["same", "nics", "another", "unknown"]
Mac = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]


@dataclass(frozen=True)
class MachineIdentity:
    """What a machine tells of itself; None and empty for what it does not tell.

    Attributes:
        serial: of the system, by DMI.
        uuid: of the system, by DMI, in lower case.
        board: serial of the board.
        chassis: serial of the chassis, which several machines may share.
        macs: that its NICs have from the factory, sorted.
    """

    serial: Line | None = None
    uuid: Line | None = None
    board: Line | None = None
    chassis: Line | None = None
    macs: Annotated[tuple[Mac, ...], Field(max_length=MOST_MACS)] = ()

    @property
    def is_told(self) -> bool:
        """Whether anything of it can show that a machine is the same, or another one."""
        return bool(self.serial or self.uuid or self.board or self.chassis or self.macs)

    def words(self) -> str:
        """What it is recognised by, for people: the serial, else what else is told."""
        if self.serial:
            return f"serial {self.serial}"
        named = (("UUID", self.uuid), ("board", self.board), ("chassis", self.chassis))
        found = [f"{what} {value}" for what, value in named if value]
        if self.macs and not (self.uuid or self.board):
            found.append(f"NICs {', '.join(self.macs)}")
        return f"serial unknown, {', '.join(found)}" if found else "serial unknown"

    def annotations(self) -> dict[str, str]:
        """What is written on the Node object of a machine that tells no serial."""
        if self.serial:
            return {}
        values = {
            UUID_ANNOTATION: self.uuid,
            BOARD_ANNOTATION: self.board,
            CHASSIS_ANNOTATION: self.chassis,
            MACS_ANNOTATION: " ".join(self.macs),
        }
        return {key: value for key, value in values.items() if value}


def identity(
    serial: str | None = None,
    uuid: str | None = None,
    board: str | None = None,
    chassis: str | None = None,
    macs: Iterable[str] = (),
) -> MachineIdentity:
    """An identity of what was read somewhere: what nobody filled in is left out."""
    told = (mac.lower() for mac in macs)
    return MachineIdentity(
        told_serial(_line(serial)),
        (told_uuid(_line(uuid)) or "").strip().lower() or None,
        told_serial(_line(board)),
        told_serial(_line(chassis)),
        tuple(sorted({mac for mac in told if _MAC.fullmatch(mac)} - _NO_MACS))[:MOST_MACS],
    )


def _line(value: str | None) -> str | None:
    """One line of a length that a document takes; else it tells nothing."""
    return value if value is not None and _LINE.fullmatch(value) else None


def identity_of(photo: Photograph) -> MachineIdentity:
    """What a machine that was looked at tells of itself."""
    return identity(
        photo.at("dmi.serial"),
        photo.at("host.product_uuid"),
        photo.at("dmi.board_serial"),
        photo.at("dmi.chassis_serial"),
        (str(nic["permanent_mac"]) for nic in photo.items("nics") if nic.get("permanent_mac")),
    )


def identity_on(annotations: Mapping[str, str], serial: str | None) -> MachineIdentity:
    """What a Node object says of its machine; its own kubelet may write that, too."""
    return identity(
        serial,
        annotations.get(UUID_ANNOTATION),
        annotations.get(BOARD_ANNOTATION),
        annotations.get(CHASSIS_ANNOTATION),
        annotations.get(MACS_ANNOTATION, "")[:MOST_LETTERS].split(),
    )


def likeness(accepted: MachineIdentity, seen: MachineIdentity) -> Likeness:
    """Whether the machine that is seen is the one that was accepted.

    The serial decides where both tell it. Else UUID, board and chassis do: all that both tell must
    agree for the same machine, and differ for another one. A chassis may hold several machines, so
    it proves nothing alone. Without these, the same NICs, all of them, are the same machine.
    """
    if accepted.serial and seen.serial:
        return "same" if accepted.serial == seen.serial else "another"
    pairs = {
        "uuid": (accepted.uuid, seen.uuid),
        "board": (accepted.board, seen.board),
        "chassis": (accepted.chassis, seen.chassis),
    }
    agrees = {kind: one == other for kind, (one, other) in pairs.items() if one and other}
    nics = bool(accepted.macs) and set(accepted.macs) <= set(seen.macs)
    of_chassis_alone = not agrees.keys() & {"uuid", "board"}
    if agrees and not any(agrees.values()):
        return "unknown" if of_chassis_alone and nics else "another"
    if not all(agrees.values()):
        return "unknown"
    if of_chassis_alone:
        return "nics" if nics else "unknown"
    return "same"


def is_same(accepted: MachineIdentity, seen: MachineIdentity) -> bool:
    """Whether anything says that it is the same machine, be it its NICs alone."""
    return likeness(accepted, seen) in ("same", "nics")


def without_shared(accepted: MachineIdentity, others: Iterable[MachineIdentity]) -> MachineIdentity:
    """An identity without what other machines show as well: that proves nothing."""
    found = accepted
    for other in others:
        found = replace(
            found,
            serial=None if found.serial == other.serial else found.serial,
            uuid=None if found.uuid == other.uuid else found.uuid,
            board=None if found.board == other.board else found.board,
            chassis=None if found.chassis == other.chassis else found.chassis,
            macs=tuple(mac for mac in found.macs if mac not in other.macs),
        )
    return found
