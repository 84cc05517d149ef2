"""Choose this machine's seed on a medium for many: ``choose.py FOLDER FILE``.

FOLDER has ``index.json`` and a folder for each seed. A seed with a serial is for the machine with
that DMI serial alone, one without for the machine that has one of its MACs. Exactly one has to fit;
its autoinstall document becomes FILE, and its early commands run. ``/sys`` is the machine's.
"""

import json
import os
import subprocess
import sys

SYS = "/sys"


def text(path):
    """A short file, stripped; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read(200).strip()
    except OSError:
        return ""


def machine(sys_folder):
    """The serial and the MACs of this machine."""
    serial = text(os.path.join(sys_folder, "class/dmi/id/product_serial"))
    folder = os.path.join(sys_folder, "class/net")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return serial, {text(os.path.join(folder, name, "address")).lower() for name in names}


def fitting(index, serial, macs):
    """The seeds that are for this machine."""
    return [
        one
        for one in index
        if (one["serial"] == serial if one["serial"] else macs & set(one["macs"]))
    ]


def main(argv, sys_folder=SYS):
    """Run; 1 says that nothing may be installed, with the reason on stderr."""
    folder, file = argv
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as handle:
        index = json.load(handle)
    serial, macs = machine(sys_folder)
    found = fitting(index, serial, macs)
    if len(found) != 1:
        sys.stderr.write(
            "not installed: %d of %d seeds are for the machine with the serial %s and the MACs %s\n"
            % (len(found), len(index), serial or "unknown", ", ".join(sorted(macs)))
        )
        return 1
    with open(os.path.join(folder, found[0]["name"], "autoinstall.json"), encoding="utf-8") as one:
        document = json.load(one)
    with open(file, "w", encoding="utf-8") as handle:
        json.dump(document, handle)
    for command in document["early-commands"]:
        if subprocess.run(command, check=False).returncode:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
