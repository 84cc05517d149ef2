"""Reads files from untrusted folders: only regular files, and only up to a size limit.

A pipe without a writer, or an endless device, would block a command for ever; a link in a bundle or
journal may point to any file. What must not be here: the content of the files.
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
        path: the file.
        follow: whether the last part of the path may be a link.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "a link, expected a regular file", str(path)) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb", buffering=0)


def read_plain(path: Path, *, most_bytes: int, follow: bool = False) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: the file cannot be read, is not regular, or is larger than ``most_bytes``.
    """
    with open_plain(path, follow=follow) as stream:
        if os.fstat(stream.fileno()).st_size > most_bytes:
            raise OSError(errno.EFBIG, f"larger than {most_bytes} bytes", str(path))
        content = bytearray()
        while piece := stream.read(1 << 20):
            content += piece
            if len(content) > most_bytes:
                raise OSError(errno.EFBIG, f"larger than {most_bytes} bytes", str(path))
        return bytes(content)
