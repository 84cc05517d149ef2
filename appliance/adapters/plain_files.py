"""Reads files that may be anybody's: regular ones, whole, and not beyond a limit.

A pipe that nobody writes to or a device without end would hold a command up for ever; a link in a
bundle or journal leads where nobody looked. What must not be here: what the files hold.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(path: Path, *, follow: bool = False) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: of the file.
        follow: whether the last part of the path may be a link to one.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "it is a link, not a regular file", str(path)) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb", buffering=0)


def read_plain(path: Path, *, most_bytes: int, follow: bool = False) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: it cannot be read, is no regular file, or larger than ``most_bytes``.
    """
    with open_plain(path, follow=follow) as stream:
        if os.fstat(stream.fileno()).st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it is larger than {most_bytes} bytes", str(path))
        content = bytearray()
        while piece := stream.read(1 << 20):
            content += piece
            if len(content) > most_bytes:
                raise OSError(errno.EFBIG, f"it is larger than {most_bytes} bytes", str(path))
        return bytes(content)
