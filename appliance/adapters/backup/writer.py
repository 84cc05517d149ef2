"""Writes a backup as one stream: parts, the manifest, and then the file beside it.

Plain text exists in memory only. A kill, a full disk or a source that breaks off leaves no file
that could be taken for a backup. What must not be here: where parts come from.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from appliance.adapters.backup.age import Sink, encrypted, fingerprint, require_recipients
from appliance.adapters.backup.places import Place
from appliance.adapters.backup.reader import require_content
from appliance.adapters.local.state_files import PRIVATE_FILE
from appliance.errors import ApplianceError, Refused
from appliance.model.backup.names import (
    IMAGE_RECORD,
    MANIFEST,
    SIDECAR_SUFFIX,
    SNAPSHOT,
    SUFFIX,
    is_part_name,
    plain_words,
)
from appliance.model.backup.record import (
    MOST_NAMED,
    Manifest,
    Missing,
    Part,
    Sidecar,
    manifest_text,
    read_manifest,
    sidecar_text,
)
from appliance.model.backup.volumes.record import is_record
from appliance.model.documents.strict_json import Unreadable
from appliance.model.support.rules import without_secrets

# Python's own level 9 takes ten times as long for two percent.
_LEVEL: Final = 1
_ZEROS: Final = bytes(1 << 16)


class BrokenOff(ApplianceError):
    """The source of a part ended early, or sent something else than it said."""


class BackupWriter:
    """Adds parts to a backup that is being written.

    Attributes:
        parts: that are in it, in their order.
        missing: what is not, and why.
        manifest: once it was finished.
        sidecar: the file beside it, once that was written.
    """

    def __init__(self, archive: tarfile.TarFile, moment: float) -> None:
        self.parts: list[Part] = []
        self.missing: list[Missing] = []
        self.manifest: Manifest | None = None
        self.sidecar: Sidecar | None = None
        self._archive = archive
        self._moment = int(moment)
        self._count = self._lacking = 0
        self._abandoned: list[int] = []
        self._names: set[str] = set()

    def put(self, name: str, content: bytes, node: str = "") -> Part:
        """Add a part that is in memory."""
        digest = hashlib.sha256(content).hexdigest()
        return self.stream(Part(name, digest, len(content), node), [content])

    def stream(self, part: Part, pieces: Iterable[bytes]) -> Part:
        """Add a part piece by piece.

        Args:
            part: its name, sha256 and size, as its source says.
            pieces: its content.

        Raises:
            Refused: no part may have its name, or there is one.
            BrokenOff: what came is not what the source said; the part is not in the backup.
        """
        if not is_part_name(part.name) or part.name in self._names:
            raise Refused(f"a backup has no place for {part.name[:100]!r}")
        content = _Content(part.size, pieces)
        member = tarfile.TarInfo(part.name)
        member.size, member.mode, member.mtime = part.size, PRIVATE_FILE, self._moment
        self._count += 1
        self._archive.addfile(member, content)
        self._archive.members.clear()  # type: ignore[attr-defined]
        fault = content.fault
        if not fault and content.digest != part.sha256:
            fault = "its content has another sha256 than its source said"
        if fault:
            self._abandoned.append(self._count - 1)
            raise BrokenOff(f"{part.name}: {fault}") from content.cause
        self.parts.append(part)
        self._names.add(part.name)
        return part

    def lacks(self, where: str, what: str, why: str) -> None:
        """Note what the backup does not hold; the file beside it says so in plain text."""
        self._lacking += 1
        if self._lacking <= MOST_NAMED:
            # A program's last words may have a password that it was given.
            told = without_secrets(plain_words(why))
            self.missing.append(Missing(plain_words(where, 200), plain_words(what, 200), told))

    def finish(self, manifest: Manifest) -> None:
        """End the archive with its manifest, completed by what was added.

        Raises:
            BrokenOff: nobody could read the manifest, so there is no backup.
        """
        if self._lacking > MOST_NAMED:
            more = f"and {self._lacking - MOST_NAMED} more"
            self.missing.append(Missing("all of it", more, "too many to be named"))
        # What is known of data is none of it: what broke off does not count as saved.
        held = (part.kind for part in self.parts if not _is_known_of_data(part.name))
        kinds = tuple(dict.fromkeys(held))
        about = replace(manifest.about, kinds=kinds, missing=tuple(self.missing))
        self.manifest = replace(
            manifest, about=about, parts=tuple(self.parts), abandoned=tuple(self._abandoned)
        )
        content = manifest_text(self.manifest).encode()
        self._require_readable(content)
        member = tarfile.TarInfo(MANIFEST)
        member.size, member.mode, member.mtime = len(content), PRIVATE_FILE, self._moment
        self._archive.addfile(member, io.BytesIO(content))

    def _require_readable(self, content: bytes) -> None:
        """What nodes sent is in it: whoever restores it has to be able to read it."""
        try:
            again = read_manifest(content)
        except Unreadable as error:
            raise BrokenOff(f"the backup's own list cannot be read again: {error}") from error
        if again != self.manifest:
            raise BrokenOff("the backup's own list reads as another one")
        snapshot = again.part(SNAPSHOT)
        if again.etcd is not None and (snapshot is None or snapshot.sha256 != again.etcd.sha256):
            raise BrokenOff("the backup has not the snapshot of etcd that was examined")


@contextmanager
def new_backup(
    place: Place, name: str, recipients: Sequence[str], moment: float
) -> Iterator[BackupWriter]:
    """Write a backup; it gets its name when the block ends without an error.

    The block has to end with :meth:`BackupWriter.finish`. The file beside it is written last, once
    the backup was read again and is what was written.

    Raises:
        ConfigError: a recipient is no public key; nothing was written.
        Refused: there is a backup of that name.
        CommandFailed: the place did not take it.
        NotHealthy: the place does not hold what was written.
    """
    require_recipients(recipients)
    with (
        place.new(name + SUFFIX) as sink,
        encrypted(counted := Counted(sink), recipients) as stream,
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=_LEVEL, mtime=moment) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        writer = BackupWriter(archive, moment)
        yield writer
        if writer.manifest is None:
            raise AssertionError("the backup was not finished")
    # A place may drop or change what it took: without the file beside it, it is no backup.
    require_content(place, name + SUFFIX, counted.size, counted.sha256)
    writer.sidecar = Sidecar(writer.manifest.about, counted.size, counted.sha256)
    with place.new(name + SIDECAR_SUFFIX) as sink:
        sink.write(sidecar_text(writer.sidecar).encode())


def _is_known_of_data(name: str) -> bool:
    return is_record(name) or name == IMAGE_RECORD


class Counted:
    """A sink that hands on what it takes, and knows its size and sha256."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._sum = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> int:
        """Take all of it."""
        self._sink.write(content)
        self._sum.update(content)
        self.size += len(content)
        return len(content)

    @property
    def sha256(self) -> str:
        """Of all that was taken."""
        return self._sum.hexdigest()


def fingerprints(recipients: Sequence[str]) -> tuple[str, ...]:
    """The fingerprints of recipients, each once."""
    return tuple(dict.fromkeys(fingerprint(one) for one in recipients))


class _Content(io.RawIOBase):
    """A source as tarfile reads it: always of the size that was said, whatever comes."""

    def __init__(self, size: int, pieces: Iterable[bytes]) -> None:
        self.fault = ""
        self.cause: BaseException | None = None
        self._left = size
        self._pieces = iter(pieces)
        # A view: a large piece is not copied once for each read.
        self._rest = memoryview(b"")
        self._sum = hashlib.sha256()

    @property
    def digest(self) -> str:
        """sha256 of what was read."""
        return self._sum.hexdigest()

    def read(self, size: int = -1) -> bytes:
        """So many bytes; zeros where the source broke off."""
        wanted = self._left if size < 0 else min(size, self._left)
        found = bytearray()
        while len(found) < wanted:
            if not self._rest:
                self._rest = memoryview(self._next())
            piece = self._rest[: wanted - len(found)]
            self._rest = self._rest[len(piece) :]
            found += piece
        self._left -= len(found)
        self._sum.update(found)
        return bytes(found)

    def _next(self) -> bytes:
        if not self.fault:
            try:
                while piece := next(self._pieces, None):
                    return piece
                self.fault = "its source ended early"
            except (ApplianceError, OSError) as error:
                self.fault, self.cause = str(error), error
        return _ZEROS
