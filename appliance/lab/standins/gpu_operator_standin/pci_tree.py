"""STANDIN: the files below /sys/bus/pci/devices by which node-feature-discovery finds a vendor.

It writes them from the lab's fact file: once with the argument ``once``, else again and again, as
a test may take a GPU away. The real worker of node-feature-discovery reads them.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FACTS = Path("/etc/appliance-lab/facts/gpus.json")
TREE = Path("/host-sys/bus/pci/devices")
SECONDS = 2.0
_NUMBER = re.compile(r"0x[0-9a-f]{4,6}")
_NONE = "0x0000"


def devices(listed: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return address -> attributes of each card, with the addresses that our NVML gives GPUs."""
    found = {}
    for place, entry in enumerate(listed, start=1):
        vendor = _number(entry.get("vendor_id"))
        found[f"0000:{place:02x}:00.0"] = {
            "class": _number(entry.get("class")),
            "vendor": vendor,
            "device": _number(entry.get("device_id")),
            "subsystem_vendor": vendor,
            "subsystem_device": _NONE,
        }
    return found


def write(tree: Path, wanted: Mapping[str, Mapping[str, str]]) -> None:
    """Bring the files of all cards, and take away those of cards that are gone."""
    tree.mkdir(parents=True, exist_ok=True)
    for path in tree.iterdir():
        if path.name not in wanted:
            shutil.rmtree(path)
    for address, attributes in wanted.items():
        folder = tree / address
        folder.mkdir(exist_ok=True)
        for name, value in attributes.items():
            file = folder / name
            if not file.is_file() or file.read_text(encoding="utf-8") != f"{value}\n":
                file.write_text(f"{value}\n", encoding="utf-8")


def _number(value: object) -> str:
    """Return a number as sysfs has it; none for a word such as STANDIN."""
    return value if isinstance(value, str) and _NUMBER.fullmatch(value) else _NONE


def main(arguments: Sequence[str]) -> None:
    """Write the files once, or for ever."""
    while True:
        try:
            listed = json.loads(FACTS.read_text(encoding="utf-8"))
        except FileNotFoundError:
            listed = []
        except ValueError:
            # A test writes the file at this moment.
            listed = None
        if listed is not None:
            write(TREE, devices(listed))
        if "once" in arguments and listed is not None:
            return
        time.sleep(SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
