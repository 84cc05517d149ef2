"""Programs of a node whose login user is not root, and whose sudo asks for a password.

The real sudo runs in the lab (``tests/lab/test_sudo_password.py``). What it does with its input is
written here after its sources: it reads one line byte by byte and leaves the rest, and after a
wrong one it reads the next.
"""

from __future__ import annotations

from pathlib import Path

PASSWORD = 'a canary\'s "pass$word" \\n'  # noqa: S105
_SUDO = """#!/usr/bin/python3
import os, sys
words = sys.argv[1:]
flags = [word for word in words if word in ("-n", "-k", "-S")]
if "-p" in words:
    del words[words.index("-p") : words.index("-p") + 2]
rest = [word for word in words if word not in flags]
if {asks} and "-n" in flags:
    sys.exit("sudo: a password is required")
for attempt in range(3 if {asks} else 0):
    line = b""
    while not line.endswith(b"\\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("sudo: no password was provided")
        line += byte
    if line == {password!r} + b"\\n":
        break
else:
    if {asks}:
        sys.exit("sudo: 3 incorrect password attempts")
os.environ["AS_ROOT"] = "1"
os.execvp(rest[0], rest)
"""


def programs(folder: Path, *, asks: bool) -> Path:
    """A folder for the PATH with ``id`` and ``sudo``."""
    text = _SUDO.replace("{asks}", str(asks)).replace("{password!r}", repr(PASSWORD.encode()))
    for name, content in {"sudo": text, "id": "#!/bin/sh\necho 1000\n"}.items():
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    return folder
