"""The draft of ``imaging`` in a node's host_vars: which machine it is, and its system disk.

Only for a machine whose BMC was found: ``node image`` works by it. A disk is written only where the
machine shows no other; else the candidates stand as comments, and a person chooses.
"""

from __future__ import annotations

from typing import Final

from appliance.model.checks.discovery.found import Found, FoundDisk
from appliance.model.site.imaging_settings import is_disk_serial
from appliance.model.state.facts.hardware_models import GB

# Of a storage server the first: a person looks up the others.
MOST_CANDIDATES: Final = 24
_CHOOSE: Final = ("  # The disk for the system; node image erases all on it. Keep one line:",)
_ASK: Final = (
    "  # No disk tells its serial. In a rescue system: lsblk -d -o NAME,SERIAL",
    '  disk_serial: ""',
)
_ARRAY: Final = (
    "  # Behind a RAID controller the system sees an array: its serial, as lsblk shows it.",
)


def section(machine: Found, by_bmc: Found | None) -> dict[str, str] | None:
    """The section, where there is exactly one disk that the system can go to.

    Args:
        machine: by SSH if it was found so, else by its BMC.
        by_bmc: what its BMC told; None without one.
    """
    disks = _disks(machine, by_bmc)
    if by_bmc is None or disks is None or len(disks) != 1:
        return None
    (disk,) = disks
    if disk.serial is None or not disk.alone:
        return None
    return {"disk_serial": disk.serial, **_machine_serial(by_bmc)}


def remark(machine: Found, by_bmc: Found | None) -> tuple[str, ...]:
    """Lines of a comment in its place: the section as far as it is known, and what to choose from.

    Empty without a BMC, and where the section itself can be written.
    """
    if by_bmc is None or section(machine, by_bmc) is not None:
        return ()
    told = _disks(machine, by_bmc) or ()
    named = [one for one in told if one.serial is not None][:MOST_CANDIDATES]
    lines = ["imaging:"]
    lines += _CHOOSE if named else _ASK
    if not all(one.alone for one in named):
        lines += _ARRAY
    lines += [f'  disk_serial: "{one.serial}"{_about(one)}' for one in named]
    if left := len(told) - len(named):
        lines.append(f"  # {left} more that {'is' if left == 1 else 'are'} not listed")
    return (*lines, *(f'  machine_serial: "{one}"' for one in _machine_serial(by_bmc).values()))


def _disks(machine: Found, by_bmc: Found | None) -> tuple[FoundDisk, ...] | None:
    """As Linux sees them, which an installer goes by; else as the BMC tells."""
    return machine.disks or (by_bmc.disks if by_bmc else None)


def _machine_serial(by_bmc: Found) -> dict[str, str]:
    """As the BMC has it: ``node image`` asks the BMC for it."""
    serial = by_bmc.serial
    return {"machine_serial": serial} if serial and is_disk_serial(serial) else {}


def _about(one: FoundDisk) -> str:
    words = [f"{one.size_bytes // GB} GB"] if one.size_bytes else []
    words += [one.model] if one.model else []
    return f"  # {', '.join(words)}" if words else ""
