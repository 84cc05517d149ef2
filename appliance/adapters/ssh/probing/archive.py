"""The probe as one file: a zipapp for Python 3.8 or later on a node.

The same sources give the same bytes. What must not be here: running it (``nodes.py``), or the
meaning of its output (``model/state/facts/facts.py``).
"""

from __future__ import annotations

import io
import shlex
import zipfile
from collections.abc import Sequence
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

# What Python runs.
_START = """import os, sys
archive = sys.stdin.buffer.read()
place = os.memfd_create("probe")
os.write(place, archive)
sys.path.insert(0, "/proc/self/fd/%d" % place)
from appliance_probe.__main__ import main
main()
os._exit(0)
"""


@cache
def probe_archive() -> bytes:
    """Return the zipapp: ``python3 probe.pyz`` prints the node's facts."""
    folder = Path(appliance.probe.__file__).parent
    members = {"__main__.py": START.encode()}
    for path in sorted(folder.rglob("*.py")):
        members[f"{PACKAGE}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()


def probe_script(python: str, arguments: Sequence[str]) -> str:
    """A shell script that runs the archive on its standard input with this Python."""
    words = [python, "-I", "-S", "-c", _START, *arguments]
    return f"exec {shlex.join(words)}"
