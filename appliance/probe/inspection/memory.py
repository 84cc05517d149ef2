"""Memory: every slot by firmware, and errors by the kernel's counters (EDAC)."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from ..machine.system import container
from ..source import Source
from .reasons import IN_A_CONTAINER, ask, number

# The slots are type 17, the arrays that hold them type 16 (SMBIOS, DSP0134).
ARGV = ["dmidecode", "-t", "16,17"]
KEY = "dmidecode-16-17"
UNITS = {"kB": 1024, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
EDAC = "/sys/devices/system/edac/mc/"
NO_EDAC = "no EDAC driver counts memory errors"


def _blocks(source: Source, title: str, *paths: str) -> Optional[List[Dict[str, str]]]:
    if container(source):
        for path in paths:
            source.unseen(IN_A_CONTAINER, path)
        return None
    text = ask(source, KEY, ARGV, *paths)
    if text is None:
        return None
    found = []
    for block in text.split("\n\n"):
        if title in block:
            pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
            found.append({key.strip(): value.strip() for key, value in pairs})
    return found


def dimms(source: Source) -> Optional[List[Dict[str, Any]]]:
    """Every slot, empty ones too; slots with the same name in firmware are numbered."""
    blocks = _blocks(source, "Memory Device\n", "dimms")
    if not blocks:
        if blocks is not None:
            source.note("dmidecode lists no slot")
        return None
    seen: Dict[str, int] = {}
    return [_dimm(source, block, seen) for block in blocks]


def _dimm(source: Source, block: Dict[str, str], seen: Dict[str, int]) -> Dict[str, Any]:
    name = "_".join(block.get("Locator", "unnamed").split()) or "unnamed"
    seen[name] = seen.get(name, 0) + 1
    slot = name if seen[name] == 1 else "%s.%d" % (name, seen[name])
    size = _size(block.get("Size", ""))
    if size is None:
        source.unseen("dmidecode prints %r" % block.get("Size"), "dimms.%s.size_bytes" % slot)
    speed = _speed(block, "Configured Memory Speed", "Configured Clock Speed")
    if size and speed is None:
        source.unseen("dmidecode prints no configured speed", "dimms.%s.speed_mts" % slot)
    return {
        "slot": slot,
        "size_bytes": size,
        "kind": block.get("Type"),
        "speed_mts": speed,
        "rated_mts": _speed(block, "Speed"),
        "part": block.get("Part Number"),
        "serial": block.get("Serial Number"),
    }


def _size(text: str) -> Optional[int]:
    if text == "No Module Installed":
        return 0
    match = re.match(r"(\d{1,12}) ([kKMGT]B)", text)
    return int(match.group(1)) * UNITS[match.group(2)] if match else None


def _speed(block: Dict[str, str], *names: str) -> Optional[int]:
    for name in names:
        match = re.match(r"\d{1,9}", block.get(name, ""))
        if match:
            return int(match.group(0))
    return None


def errors(source: Source) -> Dict[str, Any]:
    """The kind of error correction, and what the kernel counted since it started."""
    blocks = _blocks(source, "Physical Memory Array\n", "memory.correction")
    kinds = [b["Error Correction Type"] for b in blocks or () if "Error Correction Type" in b]
    if blocks is not None and not kinds:
        source.unseen("dmidecode prints no error correction", "memory.correction")
    found: Dict[str, Any] = {"correction": kinds[0] if kinds else None}
    found.update(counted(source))
    for field in ("corrected", "uncorrected"):
        if found[field] is None:
            source.unseen(NO_EDAC, "memory." + field)
    return found


def counted(source: Source) -> Dict[str, Optional[int]]:
    """What the kernel counted since it started; None without a driver that counts."""
    found: Dict[str, Optional[int]] = {"corrected": None, "uncorrected": None}
    controllers = [name for name in source.names(EDAC) if re.fullmatch(r"mc\d+", name)]
    for field, file in (("corrected", "ce_count"), ("uncorrected", "ue_count")):
        counts = [number(source.word(EDAC + name + "/" + file)) for name in controllers]
        if counts and None not in counts:
            found[field] = sum(count or 0 for count in counts)
    return found
