"""Reads tar archives as streams, in bounded memory, and detects truncated and damaged ones.

Python's reader treats a missing or broken header as the end, and reads a long name or an extended
header of any length. What must not be here: the purpose of an archive.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, Final, cast

CHUNK: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
# Longer than any path, link or attribute of a file system.
_EXTENDED_LIMIT: Final = 256 << 10
_GLOBAL_LIMIT: Final = 100
_EXTENDED: Final = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
_SPARSE: Final = tarfile.GNUTYPE_SPARSE
# Undocumented, but the only way to distinguish these from the end.
_TARFILE: Final[Any] = tarfile
_EARLY_END: Final = (_TARFILE.EmptyHeaderError, _TARFILE.TruncatedHeaderError)
_NO_HEADER: Final = (_TARFILE.InvalidHeaderError, _TARFILE.SubsequentHeaderError)
# Errors of the standard readers for damaged content: their own, and any that a hostile number or
# encoding causes.
BROKEN: Final = (
    *(tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile),
    *(ValueError, OverflowError, RecursionError, AssertionError, IndexError, TypeError),
)


class Damaged(Exception):
    """The archive is truncated, is not a tar archive, or has members that no archive needs."""


class StrictInfo(tarfile.TarInfo):
    """A member with a complete header and extended headers of bounded length."""

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> Any:
        """Distinguish the end of the archive from a break."""
        try:
            return super().fromtarfile(tarfile)
        except _EARLY_END as error:
            raise Damaged("the archive is truncated") from error
        except _NO_HEADER as error:
            if tarfile.offset == 0:
                raise Damaged("not a tar archive") from error
            raise Damaged(f"the archive is damaged at byte {tarfile.offset}") from error

    def _proc_member(self, tarfile: Any) -> Any:
        """Refuse headers that would fill the memory or be read without end.

        Every header passes this method; newer versions of Python no longer call ``frombuf``.
        """
        if self.size < 0:
            raise Damaged("a member has a negative size")
        if self.type in _EXTENDED and self.size > _EXTENDED_LIMIT:
            raise Damaged(f"a name or header is longer than {_EXTENDED_LIMIT} bytes")
        if self.type == _SPARSE:
            raise Damaged("the archive has a sparse file")
        return cast("Any", super())._proc_member(tarfile)

    def _proc_gnusparse_10(self, *_anything: Any) -> None:
        raise Damaged("the archive has a sparse file")


def members(stream: IO[bytes]) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Every member; each is dropped from tarfile's list, which would keep them all."""
    with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK, tarinfo=StrictInfo) as archive:
        while (member := archive.next()) is not None:
            if len(archive.pax_headers) > _GLOBAL_LIMIT:
                raise Damaged(f"the archive has more than {_GLOBAL_LIMIT} global headers")
            yield archive, member
            archive.members.clear()  # type: ignore[attr-defined]


def plain_stream(stream: IO[bytes]) -> IO[bytes]:
    """The stream, decompressed if it is gzip."""
    start = stream.peek(2)[:2]  # type: ignore[attr-defined]
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if start == _GZIP else stream


def told(error: Exception) -> str:
    """The sentence for a damaged archive."""
    if isinstance(error, EOFError) or "unexpected end" in str(error):
        return "the archive is truncated"
    if isinstance(error, Damaged):
        return str(error)
    if isinstance(error, RecursionError):
        return "the archive is damaged: headers nested without end"
    return f"the archive is damaged: {error}"
