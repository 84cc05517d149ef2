"""Which machine it is, what it boots, and its CPUs."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from ..machine.system import container
from ..source import Source
from .reasons import IN_A_CONTAINER

DMI = "/sys/class/dmi/id/"
IDENTITY = {
    "vendor": "sys_vendor",
    "product": "product_name",
    "serial": "product_serial",
    "board": "board_name",
    "uuid": "product_uuid",
}
FIRMWARE = {"bios": "bios_version", "bios_date": "bios_date"}


def _dmi(source: Source, fields: Dict[str, str]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for field, file in fields.items():
        found[field] = None if container(source) else source.word(DMI + file)
        if found[field] is None:
            why = "%s%s: empty, absent or only for root" % (DMI, file)
            why = IN_A_CONTAINER if container(source) else why
            source.unseen(why, "%s.%s" % (source.section, field))
    return found


def identity(source: Source) -> Dict[str, Any]:
    """Strings of the firmware, exactly."""
    return _dmi(source, IDENTITY)


def firmware(source: Source) -> Dict[str, Any]:
    """Versions of the firmware; only the BMC knows its own."""
    found = _dmi(source, FIRMWARE)
    source.unseen("only the BMC tells its version", "firmware.bmc")
    return found


def cpus(source: Source) -> List[Dict[str, Any]]:
    """Each populated socket, from /proc/cpuinfo."""
    sockets: Dict[str, Dict[str, Any]] = {}
    cores: Dict[str, Set[str]] = {}
    for block in (source.text("/proc/cpuinfo") or "").split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        entry = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" not in entry:
            continue
        socket = entry.get("physical id", "0")
        cores.setdefault(socket, set()).add(entry.get("core id", entry["processor"]))
        sockets.setdefault(
            socket,
            {
                "socket": socket,
                "model": entry.get("model name"),
                "microcode": entry.get("microcode"),
            },
        )
    return [{**sockets[name], "cores": len(cores[name])} for name in sorted(sockets)]
