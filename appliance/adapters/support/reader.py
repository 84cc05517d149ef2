"""Reads a support bundle from outside: nothing of it touches the disk, and everything has a limit.

A bundle may be made to harm whoever opens it: names that lead elsewhere, links, devices, content
that grows without end, JSON that is not. The first of these ends the reading.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from appliance.adapters.bundle.strict_tar import BROKEN, Damaged, members, plain_stream, told
from appliance.adapters.local.plain_files import open_plain
from appliance.errors import NotHealthy
from appliance.model.documents.strict_json import Unreadable, read_json

FOLDER: Final = "support/"
MOST_FILE_BYTES: Final = 1 << 30
MOST_BYTES: Final = 2_100_000_000
MOST_MEMBERS: Final = 20_000
MOST_TEXT_BYTES: Final = 64 << 20
MOST_DOCUMENT_BYTES: Final = 16 << 20
MOST_DOCUMENTS_BYTES: Final = 128 << 20
LONGEST_LINE: Final = 8192
_CHUNK: Final = 1 << 16
_NAME: Final = re.compile(
    r"support/(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,130}/){0,8}[A-Za-z0-9_][A-Za-z0-9._-]{0,130}"
)
# Documents that are kept; every other text is read line by line.
_KEPT: Final = re.compile(
    r"(?:bundle|site|observed|unanswered|versions|health|plan|status)\.json|facts/[^/]+\.json"
)
_LINES: Final = (".log", ".txt")


def read_bundle(path: Path, on_line: Callable[[str, str], None]) -> dict[str, Any]:
    """The documents of a bundle; each line of its logs is handed over as it is read.

    Args:
        path: the file.
        on_line: is called with the name of a text and one line of it.

    Raises:
        NotHealthy: it is no support bundle, damaged, or larger than any.
        OSError: it cannot be read.
    """
    try:
        with open_plain(path, follow=True) as raw, io.BufferedReader(raw) as stream:  # type: ignore[type-var]
            if raw.seek(0, io.SEEK_END) > MOST_FILE_BYTES:
                raise Damaged(f"it is larger than {MOST_FILE_BYTES} bytes")
            raw.seek(0)
            return _read(plain_stream(stream), on_line)
    except (Damaged, Unreadable, *BROKEN) as error:
        raise NotHealthy(
            f"{path} is no support bundle that can be read: {told(error)}",
            hint="ask for the file again; one is made by: appliance support bundle",
        ) from error


class _Contents:
    """What was read so far, against the limits."""

    def __init__(self, on_line: Callable[[str, str], None]) -> None:
        self.documents: dict[str, Any] = {}
        self._on_line = on_line
        self._names: set[str] = set()
        self._total = self._kept = 0

    def take(self, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        """One member of the archive.

        Raises:
            Damaged: no support bundle has it.
        """
        name = _name(member, self._names)
        self._total += member.size
        if content is None or self._total > MOST_BYTES or len(self._names) > MOST_MEMBERS:
            raise Damaged("it holds more than any support bundle")
        if _KEPT.fullmatch(name):
            self._kept += member.size
            if member.size > MOST_DOCUMENT_BYTES or self._kept > MOST_DOCUMENTS_BYTES:
                raise Damaged(f"{name}: larger than any document")
            self.documents[name] = _document(name, content.read(member.size))
        elif name.endswith(_LINES):
            if member.size > MOST_TEXT_BYTES:
                raise Damaged(f"{name}: larger than any text")
            for line in _lines(content):
                self._on_line(name, line)


def _read(stream: IO[bytes], on_line: Callable[[str, str], None]) -> dict[str, Any]:
    contents = _Contents(on_line)
    for archive, member in members(stream):
        contents.take(member, archive.extractfile(member) if member.isreg() else None)
    if "bundle.json" not in contents.documents:
        raise Damaged("it has no list of contents: it is no support bundle, or cut")
    return contents.documents


def _name(member: tarfile.TarInfo, names: set[str]) -> str:
    """The name of a member without the folder; each name once, and none that leads elsewhere."""
    if not _NAME.fullmatch(member.name):
        raise Damaged("a member has a name that no support bundle has")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise Damaged(f"{member.name}: not a regular file")
    if member.name in names:
        raise Damaged(f"{member.name} is there twice")
    names.add(member.name)
    return member.name.removeprefix(FOLDER)


def _document(name: str, content: bytes) -> Any:
    try:
        return read_json(content, most_bytes=MOST_DOCUMENT_BYTES)
    except Unreadable as error:
        raise Damaged(f"{name}: {error}") from error


def _lines(content: IO[bytes]) -> Iterator[str]:
    """Lines of a text, each cut at a length at which nobody reads on."""
    rest = b""
    while chunk := content.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line[:LONGEST_LINE].decode(errors="replace")
        rest = rest[:LONGEST_LINE]
    if rest:
        yield rest.decode(errors="replace")
