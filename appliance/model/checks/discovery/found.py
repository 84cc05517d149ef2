"""One machine that answered, as far as a draft needs it.

Everything here was said by a machine that nobody knows yet. Text is of one line, bounded and
printable; numbers have bounds. What does not fit is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Any, Final

from appliance.model.checks.discovery.targets import Target
from appliance.model.checks.hardware.found import Machine
from appliance.model.site.imaging_settings import is_disk_serial
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.placeholders import told_serial, told_uuid

_TEXT: Final = re.compile(r"[\x20-\x7e]{1,100}")
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MOST: Final = 1 << 62


@dataclass(frozen=True)
class Failed:
    """Why a target gave nothing.

    Attributes:
        refuses_key: the login itself was refused; a password may help.
    """

    reason: str
    refuses_key: bool = False


@dataclass(frozen=True)
class FoundDisk:
    """One disk of a machine, without those on USB.

    Attributes:
        serial: None: not told, or none that an installer can look for.
        alone: it is what the system sees: no RAID controller may stand before it.
    """

    serial: str | None
    size_bytes: int | None = None
    model: str | None = None
    alone: bool = True


@dataclass(frozen=True)
class Found:
    """What one target told; None: not told.

    Attributes:
        gpus: how many; 0 if it has none.
        cpus: hardware threads by SSH, cores by Redfish.
        memory_bytes: of the whole machine.
        disk_bytes: of all whole disks.
        disks: that a system could go to.
        prefix: of the target's address on the machine itself.
        mac: of the interface that has this address.
        has_key: it lets the site's key in.
        sudo_asks: sudo wants the login user's password there.
    """

    target: Target
    vendor: str | None = None
    product: str | None = None
    serial: str | None = None
    uuid: str | None = None
    gpus: int | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    prefix: int | None = None
    mac: str | None = None
    has_key: bool = False
    sudo_asks: bool = False
    disks: tuple[FoundDisk, ...] | None = None

    def is_also(self, other: Found) -> bool:
        """Whether both are one machine: by serial, else by UUID.

        Two systems that tell other UUIDs are two machines with one serial; a BMC may swap the
        bytes of its UUID, so SSH and BMC are compared by serial first.
        """
        same_kind = self.target.kind == other.target.kind
        if self.serial and other.serial:
            differ = same_kind and self.uuid and other.uuid and self.uuid != other.uuid
            return self.serial == other.serial and not differ
        return self.uuid is not None and self.uuid == other.uuid


def found_by_ssh(target: Target, facts: NodeFacts, *, has_key: bool) -> Found:
    """What the probe of a server told."""
    disks = [one.get("size_bytes") for one in facts.items("disks")]
    prefix, mac = _interface(target, facts)
    return Found(
        target,
        vendor=_text(facts.at("dmi.vendor")),
        product=_text(facts.at("dmi.product")),
        serial=_text(facts.serial),
        uuid=_uuid(facts.product_uuid),
        gpus=None if facts.at("gpus") is None else len(facts.items("gpus")),
        cpus=_count(facts.at("cpu.threads")),
        memory_bytes=_count(facts.at("memory.total_bytes")),
        disk_bytes=_total(disks),
        prefix=prefix,
        mac=mac,
        has_key=has_key,
        disks=_disks(facts),
    )


def found_by_bmc(target: Target, machine: Machine) -> Found:
    """What a BMC told."""
    dimms = None if machine.dimms is None else [one.size_bytes for one in machine.dimms]
    disks = None if machine.disks is None else [one.size_bytes for one in machine.disks]
    cores = None if machine.cpus is None else [one.cores for one in machine.cpus]
    return Found(
        target,
        vendor=_text(machine.identity.vendor),
        product=_text(machine.identity.product),
        serial=_text(told_serial(machine.identity.serial)),
        uuid=_uuid(told_uuid(machine.identity.uuid)),
        gpus=None if machine.gpus is None else len(machine.gpus),
        cpus=_total(cores),
        memory_bytes=_total(dimms),
        disk_bytes=_total(disks),
        disks=_bmc_disks(machine),
    )


def _disks(facts: NodeFacts) -> tuple[FoundDisk, ...] | None:
    """Those that Linux sees; what is an array there is one disk to an installer, too."""
    if facts.at("disks") is None:
        return None
    return tuple(
        FoundDisk(
            _serial(one.get("serial")), _count(one.get("size_bytes")), _text(one.get("model"))
        )
        for one in facts.items("disks")
        if one.get("transport") != "usb"
    )


def _bmc_disks(machine: Machine) -> tuple[FoundDisk, ...] | None:
    """Those that a BMC tells of. Linux sees no drive that a RAID controller keeps to itself."""
    if machine.disks is None:
        return None
    return tuple(
        FoundDisk(
            _serial(one.serial), _count(one.size_bytes), _text(one.model), alone=machine.raid == ()
        )
        for one in machine.disks
        if one.transport != "usb"
    )


def _serial(value: Any) -> str | None:
    text = told_serial(_text(value))
    return text if text and is_disk_serial(text) else None


def _interface(target: Target, facts: NodeFacts) -> tuple[int | None, str | None]:
    for nic in facts.items("nics"):
        addresses = nic.get("addresses")
        for text in addresses if isinstance(addresses, list) else ():
            try:
                interface = IPv4Interface(text)
            except ValueError:
                continue
            if interface.ip == target.address:
                length, mac = interface.network.prefixlen, nic.get("mac")
                good = isinstance(mac, str) and _MAC.fullmatch(mac)
                return length if length < 31 else None, str(mac) if good else None
    return None, None


def _text(value: Any) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if _TEXT.fullmatch(text) else None


def _uuid(value: Any) -> str | None:
    text = _text(value)
    return text.lower() if text else None


def _count(value: Any) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    return int(value) if good else None


def _total(values: list[Any] | None) -> int | None:
    """The sum; None if a part is unknown, or there is none."""
    counts = [count for one in values or () if (count := _count(one)) is not None]
    return sum(counts) if counts and len(counts) == len(values or ()) else None
