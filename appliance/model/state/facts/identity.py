"""The identity of a machine: its serial, or else other firmware identifiers and its NICs.

The DMI serial decides where both sides have it. On a board without one, the UUID and the serials
of board and chassis decide, each compared only with its own kind. NICs move between machines: they
can show that it is the same machine, never that it is another one.
What must not be here: where an identity is stored, and its source (:mod:`.accepted`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from appliance.model.documents.typed_json import Line
from appliance.model.state.facts.placeholders import told_serial, told_uuid

if TYPE_CHECKING:
    from appliance.model.state.facts.facts import NodeFacts

# Annotations of a Node object, written where the machine has no serial.
UUID_ANNOTATION: Final = "appliance.dev/product-uuid"
BOARD_ANNOTATION: Final = "appliance.dev/board-serial"
CHASSIS_ANNOTATION: Final = "appliance.dev/chassis-serial"
MACS_ANNOTATION: Final = "appliance.dev/macs"
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NO_MACS: Final = frozenset({"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"})
MOST_MACS: Final = 64
MOST_LETTERS: Final = 20 * MOST_MACS
_LINE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,1000}")

# "nics": only its NICs show that it is the same. "unknown" is neither the same nor another one.
Likeness = Literal["same", "nics", "another", "unknown"]
Mac = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]


@dataclass(frozen=True)
class MachineIdentity:
    """A machine's identifiers; None and empty for unknown ones.

    Attributes:
        serial: of the system, by DMI.
        uuid: of the system, by DMI, in lower case.
        board: serial of the board.
        chassis: serial of the chassis, which several machines may share.
        macs: permanent addresses of its NICs, sorted.
    """

    serial: Line | None = None
    uuid: Line | None = None
    board: Line | None = None
    chassis: Line | None = None
    macs: Annotated[tuple[Mac, ...], Field(max_length=MOST_MACS)] = ()

    @property
    def is_told(self) -> bool:
        """Whether it contains anything that identifies a machine."""
        return bool(self.serial or self.uuid or self.board or self.chassis or self.macs)

    def words(self) -> str:
        """Return its identifiers in words: the serial, else the others."""
        if self.serial:
            return f"serial {self.serial}"
        named = (("UUID", self.uuid), ("board", self.board), ("chassis", self.chassis))
        found = [f"{what} {value}" for what, value in named if value]
        if self.macs and not (self.uuid or self.board):
            found.append(f"NICs {', '.join(self.macs)}")
        return f"serial unknown, {', '.join(found)}" if found else "serial unknown"

    def annotations(self) -> dict[str, str]:
        """Return the annotations for the Node object of a machine without a serial."""
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
    """Build an identity from read values, without placeholders."""
    told = (mac.lower() for mac in macs)
    return MachineIdentity(
        told_serial(_line(serial)),
        (told_uuid(_line(uuid)) or "").strip().lower() or None,
        told_serial(_line(board)),
        told_serial(_line(chassis)),
        tuple(sorted({mac for mac in told if _MAC.fullmatch(mac)} - _NO_MACS))[:MOST_MACS],
    )


def _line(value: str | None) -> str | None:
    """Return a line of an allowed length, or None."""
    return value if value is not None and _LINE.fullmatch(value) else None


def identity_of(facts: NodeFacts) -> MachineIdentity:
    """Return the identity in a node's facts."""
    return identity(
        facts.at("dmi.serial"),
        facts.at("host.product_uuid"),
        facts.at("dmi.board_serial"),
        facts.at("dmi.chassis_serial"),
        (str(nic["permanent_mac"]) for nic in facts.items("nics") if nic.get("permanent_mac")),
    )


def identity_on(annotations: Mapping[str, str], serial: str | None) -> MachineIdentity:
    """Return the identity on a Node object, which its own kubelet could also write."""
    return identity(
        serial,
        annotations.get(UUID_ANNOTATION),
        annotations.get(BOARD_ANNOTATION),
        annotations.get(CHASSIS_ANNOTATION),
        annotations.get(MACS_ANNOTATION, "")[:MOST_LETTERS].split(),
    )


def likeness(accepted: MachineIdentity, seen: MachineIdentity) -> Likeness:
    """Compare the observed machine with the accepted one.

    The serial decides where both have it. Else UUID, board and chassis decide: all that both have
    must agree for the same machine, and differ for another one. A chassis may contain several
    machines, so it is no evidence alone. Without these, identical NICs mean the same machine.
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
    """Whether there is evidence for the same machine, even if only its NICs."""
    return likeness(accepted, seen) in ("same", "nics")


def without_shared(accepted: MachineIdentity, others: Iterable[MachineIdentity]) -> MachineIdentity:
    """Return an identity without values that other machines share: those are no evidence."""
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
