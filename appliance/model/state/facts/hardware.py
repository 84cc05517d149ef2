"""A machine's hardware as named facts, and the differences between two documents.

Each fact has a short name that a person can type (``dimm:A1``, ``gpu:0000:17:00.0``): ``node return
--acknowledge`` and ``node passport`` use these names. What must not be here: the consequences of a
difference for a command.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appliance.model.state.facts.identity import MachineIdentity, identity_of

if TYPE_CHECKING:
    from appliance.model.state.facts.facts import NodeFacts

# Fixed parts of the machine, as opposed to software and removable parts.
IDENTITY = frozenset({"machine", "dimm", "disk", "nic", "gpu", "uuid"})
# Identifies the machine where one side has no serial.
FIRMWARE = frozenset({"product-uuid", "board-serial", "chassis-serial"})
CLOCK_SECONDS = 5.0
RIGHT = "right"
GIB = 1024**3
# Facts that disappear with a part: kind -> the kind of the part, or what is needed to read them.
PART_OF = {"pcie": ("gpu",), "uuid": ("gpu", "driver"), "ecc": ("gpu", "driver"), "link": ("nic",)}
# Removable disks, which no appliance is built on.
REMOVABLE = ("usb",)
# A network card, a bond of several, and what a container has instead.
CABLED = (None, "bond", "veth")
_LEADING: Final = re.compile(r"x?([0-9]{1,18})")


@dataclass(frozen=True)
class Difference:
    """One fact that has changed.

    Attributes:
        name: of the fact, e.g. ``dimm:A1``.
        before: the old value; None for a new part.
        seen: the current value; None for a missing part.
    """

    name: str
    before: str | None
    seen: str | None

    @property
    def is_loss(self) -> bool:
        """Whether a part is missing or different; a new part is not a loss."""
        return self.before is not None

    def sentence(self) -> str:
        """Return the difference in one line: fact, value found, value expected."""
        return f"{self.name}: found {self.seen or 'none'}, expected {self.before or 'none'}"


def hardware_facts(facts: NodeFacts, kinds: Collection[str] | None = None) -> Mapping[str, str]:
    """Return fact name -> its value in words, without unknown facts.

    Args:
        facts: of the node.
        kinds: which kinds (the part of a name before the colon); None for all.
    """
    return {
        name: value
        for name, value in _facts(facts)
        if value and (kinds is None or name.partition(":")[0] in kinds)
    }


def compare(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return every fact that has changed, losses first, by name."""
    found = [
        Difference(name, before.get(name), now.get(name))
        for name in sorted(before.keys() | now.keys())
        if not _is_as_good(name, before.get(name), now.get(name))
        and not _went_with_its_part(name, before, now)
        and not _is_told_better(name, before, now)
    ]
    return tuple(sorted(found, key=lambda difference: not difference.is_loss))


def _went_with_its_part(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a fact is missing only because its part, or the driver, is missing."""
    kind, _, place = name.partition(":")
    parts = [p if p == "driver" else f"{p}:{place}" for p in PART_OF.get(kind, ())]
    return name not in now and any(part in before and part not in now for part in parts)


def _is_told_better(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether firmware facts are ignored: the serial decides, or one side has none of them."""
    if name not in FIRMWARE:
        return False
    return name not in before or name not in now or ("machine" in before and "machine" in now)


def firmware_facts(machine: MachineIdentity) -> Mapping[str, str]:
    """Return a machine's firmware facts besides its serial: fact name -> its value."""
    found = zip(
        ("product-uuid", "board-serial", "chassis-serial"),
        (machine.uuid, machine.board, machine.chassis),
        strict=True,
    )
    return {name: value for name, value in found if value}


def _is_as_good(name: str, before: str | None, now: str | None) -> bool:
    """Whether the values are equal, or a number that may change in one direction did so."""
    kind = name.partition(":")[0]
    if kind == "clock":
        return now in (None, RIGHT)
    if before == now:
        return True
    if before is None or now is None:
        return kind == "pcie" and before is None
    if kind == "pcie":
        return _number(now) >= _number(before)
    if kind == "ecc":
        return _number(now) <= _number(before)
    return False


def _number(text: str) -> float:
    """Return the number at the start of a fact; NaN, which compares as false, without one."""
    found = _LEADING.match(text)
    return float(found[1]) if found else math.nan


def _facts(facts: NodeFacts) -> Iterator[tuple[str, str]]:
    yield "machine", facts.serial or ""
    yield from firmware_facts(identity_of(facts)).items()
    yield from _dimms(facts)
    for disk in facts.items("disks"):
        if disk.get("transport") not in REMOVABLE:
            yield f"disk:{_disk_name(disk)}", _disk(disk)
    yield from _nics(facts)
    yield from _gpus(facts)
    yield "kernel", str(facts.at("os.kernel") or "")
    yield "driver", str(facts.at("modules.nvidia_version") or "")
    for system in facts.items("filesystems"):
        yield f"mount:{system.get('mount')}", f"{system.get('device')} {system.get('fstype')}"
    yield "clock", _clock(facts)


def _dimms(facts: NodeFacts) -> Iterator[tuple[str, str]]:
    """Yield modules by slot; slots with the same name in firmware are numbered."""
    seen: dict[str, int] = {}
    for dimm in facts.items("memory.dimms"):
        slot = "_".join(str(dimm.get("locator") or "unnamed").split())
        seen[slot] = seen.get(slot, 0) + 1
        number = f".{seen[slot]}" if seen[slot] > 1 else ""
        yield f"dimm:{slot}{number}", _dimm(dimm)


def _dimm(dimm: Mapping[str, Any]) -> str:
    size = int(dimm.get("size_bytes") or 0) / GIB
    words = [f"{size:g} GiB"]
    if dimm.get("speed_mts"):
        words.append(f"{dimm['speed_mts']} MT/s")
    if dimm.get("serial"):
        words.append(f"serial {dimm['serial']}")
    return " ".join(words)


def _disk_name(disk: Mapping[str, Any]) -> str:
    return str(disk.get("serial") or disk.get("wwn") or disk.get("name"))


def _disk(disk: Mapping[str, Any]) -> str:
    size = int(disk.get("size_bytes") or 0) / GIB
    return " ".join(str(word) for word in (f"{size:.0f} GiB", disk.get("model")) if word)


def _nics(facts: NodeFacts) -> Iterator[tuple[str, str]]:
    """Yield physical interfaces: their address, and the state of their link."""
    for nic in facts.items("nics"):
        if nic.get("kind") not in CABLED:
            continue
        # The kernel creates a new address for a veth each time: only its presence is a fact.
        address = nic.get("mac") if nic.get("kind") != "veth" else "veth"
        yield f"nic:{nic.get('name')}", str(address or "")
        speed = f" {nic['speed_mbps']} Mb/s" if nic.get("speed_mbps") else ""
        mtu = f" MTU {nic['mtu']}" if nic.get("mtu") else ""
        yield f"link:{nic.get('name')}", f"{nic['state']}{speed}{mtu}" if nic.get("state") else ""


def _gpus(facts: NodeFacts) -> Iterator[tuple[str, str]]:
    for gpu in facts.items("gpus"):
        address = gpu.get("address")
        yield f"gpu:{address}", f"{gpu.get('vendor_id')}:{gpu.get('device_id')}"
        yield f"uuid:{address}", str(gpu.get("uuid") or "")
        if gpu.get("link_width"):
            yield f"pcie:{address}", f"x{gpu['link_width']}"
        if gpu.get("ecc_uncorrected") is not None:
            yield f"ecc:{address}", f"{gpu['ecc_uncorrected']} uncorrected errors"


def _clock(facts: NodeFacts) -> str:
    """Return the clock's deviation in words; unknown without a reference."""
    if facts.epoch is None or facts.received_at is None:
        return ""
    off = facts.epoch - facts.received_at
    # The clock was read at some moment during the probe, which is slow on a busy node.
    took = float(facts.at("took_seconds") or 0)
    return RIGHT if -CLOCK_SECONDS - took <= off <= CLOCK_SECONDS else f"{off:+.0f} s off"
