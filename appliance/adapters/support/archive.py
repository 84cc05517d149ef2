"""Writes a support bundle: a tar.gz under another name until it is whole, mode 0600.

An existing file is never replaced; a command that is killed leaves no file of that name.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from appliance.adapters.local.state_files import PRIVATE_FILE
from appliance.errors import Refused

_FOLDER: Final = "support"


class BundleWriter:
    """Adds texts to the archive."""

    def __init__(self, archive: tarfile.TarFile, moment: float) -> None:
        self._archive = archive
        self._moment = moment

    def put(self, name: str, text: str) -> None:
        """Add a text under its name."""
        content = text.encode()
        member = tarfile.TarInfo(f"{_FOLDER}/{name}")
        member.size, member.mode, member.mtime = len(content), PRIVATE_FILE, int(self._moment)
        self._archive.addfile(member, io.BytesIO(content))


def require_new(path: Path) -> None:
    """Refuse a path that exists, or whose folder does not.

    Raises:
        Refused: nothing was asked of any node yet.
    """
    if os.path.lexists(path):
        raise Refused(f"{path} exists already", hint="name another file: --to FILE")
    if not path.parent.is_dir():
        raise Refused(f"{path.parent} is not a folder", hint="name another file: --to FILE")


@contextmanager
def new_bundle(path: Path) -> Iterator[BundleWriter]:
    """Write a bundle; it gets its name when the block ends without an error.

    Raises:
        Refused: the path exists.
        OSError: it could not be written.
    """
    require_new(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".new")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), PRIVATE_FILE)
            with tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
                yield BundleWriter(archive, time.time())
            stream.flush()
            os.fsync(stream.fileno())
        _give_name(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _give_name(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise Refused(f"{path} exists already", hint="name another file: --to FILE") from None
    except OSError:
        # Not every file system has links; the path was free before.
        require_new(path)
        temporary.rename(path)
