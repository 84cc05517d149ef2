"""Reads tar archives as streams, in bounded memory, and tells an end from a break.

Python's reader takes a missing or broken header for the end, and keeps whatever length a long name
or an extended header announces. What must not be here: what an archive is for.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, Final, cast

CHUNK: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
# Longer than any path, link or attribute that a file system keeps.
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
# Not in its documentation, and the only way to tell these from an end.
_TARFILE: Final[Any] = tarfile
_EARLY_END: Final = (_TARFILE.EmptyHeaderError, _TARFILE.TruncatedHeaderError)
_NO_HEADER: Final = (_TARFILE.InvalidHeaderError, _TARFILE.SubsequentHeaderError)
# What the standard readers raise of damaged content: besides their own, whatever a hostile number
# or an encoding leads them into.
BROKEN: Final = (
    *(tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile),
    *(ValueError, OverflowError, RecursionError, AssertionError, IndexError, TypeError),
)


class Damaged(Exception):
    """The tar ends early, or holds what is no tar, or what no archive needs."""


class StrictInfo(tarfile.TarInfo):
    """A member whose header is whole, and whose extended headers have a bounded length."""

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> Any:
        """Tell an end from a break."""
        try:
            return super().fromtarfile(tarfile)
        except _EARLY_END as error:
            raise Damaged("it ends in the middle: it is truncated") from error
        except _NO_HEADER as error:
            if tarfile.offset == 0:
                raise Damaged("it is no tar archive") from error
            raise Damaged(f"it is damaged at byte {tarfile.offset}") from error

    def _proc_member(self, tarfile: Any) -> Any:
        """Refuse what would be read into memory, or is read without end.

        Every header comes by here; newer versions of Python no longer ask ``frombuf``.
        """
        if self.size < 0:
            raise Damaged("a member of it has a size before zero")
        if self.type in _EXTENDED and self.size > _EXTENDED_LIMIT:
            raise Damaged(f"a name or header in it is longer than {_EXTENDED_LIMIT} bytes")
        if self.type == _SPARSE:
            raise Damaged("it holds a sparse file")
        return cast("Any", super())._proc_member(tarfile)

    def _proc_gnusparse_10(self, *_anything: Any) -> None:
        raise Damaged("it holds a sparse file")


def members(stream: IO[bytes]) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Every member; tarfile would keep them all, so they are forgotten at once."""
    with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK, tarinfo=StrictInfo) as archive:
        while (member := archive.next()) is not None:
            if len(archive.pax_headers) > _GLOBAL_LIMIT:
                raise Damaged(f"it has more than {_GLOBAL_LIMIT} headers for all of its members")
            yield archive, member
            archive.members.clear()  # type: ignore[attr-defined]


def plain_stream(stream: IO[bytes]) -> IO[bytes]:
    """The stream itself, or unpacked where it is gzip."""
    start = stream.peek(2)[:2]  # type: ignore[attr-defined]
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if start == _GZIP else stream


def told(error: Exception) -> str:
    """What a damaged archive is called."""
    if isinstance(error, EOFError) or "unexpected end" in str(error):
        return "it ends in the middle: it is truncated"
    if isinstance(error, Damaged):
        return str(error)
    if isinstance(error, RecursionError):
        return "it is damaged: headers in headers without end"
    return f"it is damaged: {error}"
