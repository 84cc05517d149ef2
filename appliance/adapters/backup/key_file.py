"""Writes a new key of age into a file that only its owner reads."""

from __future__ import annotations

import os
from pathlib import Path

from appliance.adapters.backup.age import new_identity
from appliance.adapters.local.state_files import PRIVATE_FILE
from appliance.errors import Refused


def write_key(path: Path) -> str:
    """Make a key, write it into a new file, and return its public key.

    Raises:
        Refused: the file is there already, or its folder takes none.
    """
    identity, public = new_identity()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, PRIVATE_FILE)
    except OSError as error:
        raise Refused(
            f"{path}: the key was not written: {error.strerror}", hint="name another file"
        ) from error
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(f"# public key: {public}\n{identity}\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        # Half a key opens nothing.
        path.unlink(missing_ok=True)
        raise Refused(f"{path}: the key was not written: {error.strerror}") from error
    return public
