"""The probe as one file: a zipapp for Python 3.8 or later on a node.

The same sources give the same bytes. What must not be here: running it (``nodes.py``), or the
meaning of its output (``model/state/facts/facts.py``).
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

import appliance.probe

PACKAGE = "appliance_probe"
# Dates before 1980 do not exist in a zip file.
EPOCH = (1980, 1, 1, 0, 0, 0)
START = f"""import os
from {PACKAGE}.__main__ import main
main()
os._exit(0)
"""


@cache
def probe_archive() -> bytes:
    """Return the zipapp: ``python3 probe.pyz`` prints the node's facts."""
    folder = Path(appliance.probe.__file__).parent
    members = {"__main__.py": START.encode()}
    for path in sorted(folder.glob("*.py")):
        members[f"{PACKAGE}/{path.name}"] = path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()
