"""Choose this machine's seed on a medium for many: ``choose.py FOLDER FILE``.

FOLDER has ``index.json`` and a folder for each seed. A seed with a serial is for the machine with
that DMI serial alone, one without for the machine that has one of its MACs. Exactly one has to fit;
its autoinstall document becomes FILE, and its early commands run. Where one refuses, the error
commands of the chosen document run here: the installer reads that document only after this program,
so it knows neither its network nor whom to tell. ``/sys`` is the machine's.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

SYS = "/sys"
NETPLAN = "/etc/netplan/99-appliance.yaml"
NETPLAN_SECONDS = 120


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
    document = json.loads(chosen)
    for command in document["early-commands"]:
        if subprocess.run(command, check=False).returncode:
            tell(document)
            return 1
    return 0


def tell(document: Dict[str, Any]) -> None:
    """Report why nothing is installed, by the network that the seed would have given the machine.

    Nothing is installed any more, so whatever fails here is only written down.
    """
    try:
        # JSON is YAML, too.
        Path(NETPLAN).write_text(json.dumps(document["network"]), "utf-8")
        subprocess.run(["netplan", "apply"], check=False, timeout=NETPLAN_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write("no network to report by: %s\n" % error)
    for command in document["error-commands"]:
        subprocess.run(command, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
