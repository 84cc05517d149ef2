"""Choose this machine's seed on a medium for many: ``choose.py FOLDER FILE``.

FOLDER has ``index.json`` and a folder for each seed. A seed with a serial is for the machine with
that DMI serial alone, one without for the machine that has one of its MACs. Exactly one has to fit;
its autoinstall document becomes FILE, and its early commands run. ``/sys`` is the machine's.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

SYS = "/sys"


def text(path: Path) -> str:
    """A short file, stripped; empty where there is none."""
    try:
        return path.read_bytes()[:200].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def machine(sys_folder: str) -> Tuple[str, Set[str]]:
    """The serial and the MACs of this machine."""
    serial = text(Path(sys_folder, "class/dmi/id/product_serial"))
    ports = Path(sys_folder, "class/net").glob("*/address")
    return serial, {text(port).lower() for port in ports}


def fitting(index: List[Dict[str, Any]], serial: str, macs: Set[str]) -> List[Dict[str, Any]]:
    """The seeds that are for this machine."""
    return [
        one
        for one in index
        if (one["serial"] == serial if one["serial"] else macs & set(one["macs"]))
    ]


def main(argv: List[str], sys_folder: str = SYS) -> int:
    """Run; 1 says that nothing may be installed, with the reason on stderr."""
    folder, file = argv
    index = json.loads(Path(folder, "index.json").read_text("utf-8"))
    serial, macs = machine(sys_folder)
    found = fitting(index, serial, macs)
    if len(found) != 1:
        sys.stderr.write(
            "not installed: %d of %d seeds are for the machine with serial %s and MACs %s\n"
            % (len(found), len(index), serial or "unknown", ", ".join(sorted(macs)))
        )
        return 1
    chosen = Path(folder, found[0]["name"], "autoinstall.json").read_text("utf-8")
    Path(file).write_text(chosen, "utf-8")
    for command in json.loads(chosen)["early-commands"]:
        if subprocess.run(command, check=False).returncode:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
