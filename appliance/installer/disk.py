"""Find the disk with a serial, refuse it unless it is empty, and name it to the installer.

``disk.py SERIAL keep|wipe FILE PLACEHOLDER UNFINISHED FINISHED WHY``: PLACEHOLDER in FILE becomes
the path of the one disk with SERIAL. Why there is none is written to WHY, for the report.

With ``keep``, a disk is taken only when it is empty, or when a file system with a label of
UNFINISHED, a list with commas, shows that an earlier try of ours stopped on it, or came to its end
after nobody heard it. A disk with a file system labelled FINISHED was
written by this very seed: a machine that boots the installer again does not install itself again.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

COLUMNS = "NAME,TYPE,SERIAL,FSTYPE,LABEL,PTTYPE,MOUNTPOINT"


def refusal(
    disks: List[Dict[str, Any]], serial: str, keep: bool, unfinished: str, finished: str
) -> Tuple[str, str]:
    """The path of the disk and "", or "" and why there is none."""
    found = [one for one in disks if one.get("type") == "disk" and one.get("serial") == serial]
    if len(found) != 1:
        seen = ", ".join(
            "%s %s" % (one.get("name"), one.get("serial") or "without serial")
            for one in disks
            if one.get("type") == "disk"
        )
        return "", "%d disks have the serial %s; this machine has: %s" % (
            len(found),
            serial,
            seen or "no disk",
        )
    path = "/dev/" + str(found[0]["name"])
    parts = below(found[0])
    mounted = [one["mountpoint"] for one in parts if one.get("mountpoint")]
    if mounted:
        return "", "%s is in use: mounted at %s" % (path, mounted[0])
    if finished in [one.get("label") for one in parts]:
        return "", "%s (serial %s) was installed by this very seed" % (path, serial)
    ours = any(one.get("label") in unfinished.split(",") for one in parts if one.get("label"))
    content = [one for one in parts if one.get("fstype") or one.get("pttype") or one["depth"]]
    if keep and content and not ours:
        kinds = sorted({str(one.get("fstype") or one.get("pttype") or "a part") for one in content})
        return "", "%s (serial %s) is not empty: %s" % (path, serial, ", ".join(kinds))
    return path, ""


def below(device: Dict[str, Any], depth: int = 0) -> List[Dict[str, Any]]:
    """A device and all that stands on it, each with its depth."""
    found = [dict(device, depth=depth)]
    for child in device.get("children") or ():
        found += below(child, depth + 1)
    return found


def main(argv: List[str]) -> int:
    """Run; 1 says that nothing may be installed, with the reason on stderr and in WHY."""
    serial, mode, file, placeholder, unfinished, finished, reason = argv
    said = subprocess.run(
        ["lsblk", "-J", "-o", COLUMNS], stdout=subprocess.PIPE, timeout=60, check=True
    ).stdout
    disks = json.loads(said)["blockdevices"]
    path, why = refusal(disks, serial, mode != "wipe", unfinished, finished)
    text = Path(file).read_text("utf-8")
    if not why and placeholder not in text:
        why = "%s does not ask for a disk" % file
    if why:
        sys.stderr.write("not installed: %s\n" % why)
        Path(reason).write_text("not installed: %s\n" % why, "utf-8")
        return 1
    # The early command itself names the placeholder too; it does not run a second time.
    Path(file).write_text(text.replace(placeholder, path), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
