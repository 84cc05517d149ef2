#!/usr/bin/python3
"""STANDIN for NVIDIA's container toolkit: gives a container a small nvidia-smi, and nothing else.

NVIDIA's runtime reads NVIDIA_VISIBLE_DEVICES, which its device plug-in sets, and mounts the
driver's devices, libraries and programs. Here is no driver: the mount is a shell script that
lists what the variable names.
"""

import json
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("nvidia-smi")
PLACE = "/usr/bin/nvidia-smi"


def main(specification: Path) -> None:
    """Add the mount to a container's OCI specification."""
    document = json.loads(specification.read_text(encoding="utf-8"))
    mounts = document.setdefault("mounts", [])
    # The stand-in of the device plug-in brings one of its own.
    if any(mount.get("destination") == PLACE for mount in mounts):
        return
    mounts.append(
        {
            "destination": PLACE,
            "type": "bind",
            "source": str(PROGRAM),
            "options": ["rbind", "ro", "rprivate"],
        }
    )
    specification.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
