"""Plays ``age --encrypt --recipient KEY...`` by the library that opens backups."""

from __future__ import annotations

import sys
from pathlib import Path

TEXT = """#!{python}
import sys
import pyrage
keys = [one for before, one in zip(sys.argv, sys.argv[1:]) if before == "--recipient"]
assert sys.argv[1] == "--encrypt"
try:
    found = [pyrage.x25519.Recipient.from_str(one) for one in keys]
except pyrage.RecipientError as error:
    sys.exit("age: error: " + str(error))
pyrage.encrypt_io(sys.stdin.buffer, sys.stdout.buffer, found)
sys.stdout.buffer.flush()
"""


def age_standin(folder: Path) -> str:
    """Write the program; return its path."""
    path = folder / "age"
    path.write_text(TEXT.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)
