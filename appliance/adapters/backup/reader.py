"""Reads a backup as a stream, from outside: everything is checked, and nothing touches the disk.

Whoever knows a recipient can make a file that its key opens: names, sizes and documents in it are
hostile until the journal knows its sha256. What must not be here: what becomes of the parts.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final, cast

from appliance.adapters.backup.age import decrypted
from appliance.adapters.backup.places import Place
from appliance.adapters.bundle.strict_tar import BROKEN, Damaged, members, told
from appliance.errors import NotHealthy
from appliance.model.backup.names import (
    ANOTHER_BACKUP,
    MANIFEST,
    SIDECAR_SUFFIX,
    SUFFIX,
    is_part_name,
)
from appliance.model.backup.record import (
    MOST_MANIFEST_BYTES,
    MOST_PARTS,
    MOST_SIDECAR_BYTES,
    Manifest,
    Part,
    Sidecar,
    read_manifest,
    read_sidecar,
)
from appliance.model.documents.strict_json import Unreadable

CHUNK: Final = 1 << 20
MOST_BYTES: Final = 1 << 44
Take = Callable[[Part, IO[bytes]], None]


def check_file(place: Place, backup: str) -> Sidecar:
    """Check a backup without a key: the file beside it, size and sha256.

    Raises:
        NotHealthy: it was interrupted, changed or cut, or it cannot be read.
    """
    sidecar = read_beside(place, backup)
    require_content(place, backup + SUFFIX, sidecar.size, sidecar.sha256)
    return sidecar


def read_beside(place: Place, backup: str) -> Sidecar:
    """What the file beside a backup says.

    Raises:
        NotHealthy: there is none, or it cannot be read, or it is of another backup.
    """
    name = backup + SUFFIX
    try:
        content = place.read(backup + SIDECAR_SUFFIX, most_bytes=MOST_SIDECAR_BYTES)
        sidecar = read_sidecar(content)
    except FileNotFoundError as error:
        raise _bad(name, "it has no file beside it: it was interrupted") from error
    except (OSError, Unreadable) as error:
        raise _bad(name, f"the file beside it cannot be read: {error}") from error
    if sidecar.about.id != backup:
        raise _bad(name, "the file beside it is of another backup")
    return sidecar


def require_content(place: Place, name: str, size: int, sha256: str) -> None:
    """Read a file of a place to its end, and compare it.

    Raises:
        NotHealthy: it has another size or sha256, or it cannot be read.
    """
    digest, seen = hashlib.sha256(), 0
    try:
        with place.open(name) as stream:
            while (piece := stream.read(CHUNK)) and seen <= size:
                digest.update(piece)
                seen += len(piece)
    except OSError as error:
        raise _bad(name, f"it cannot be read: {error.strerror or error}") from error
    if seen != size:
        raise _bad(name, f"it has another size than the {size} bytes that were written")
    if digest.hexdigest() != sha256:
        raise _bad(name, "its sha256 is not the recorded one")


def check_parts(source: IO[bytes], identities: Sequence[Any], sha256: str = "") -> Manifest:
    """Check a backup with a key: read it to its end, and compare every part with the manifest.

    Args:
        source: the encrypted file.
        identities: what opens it.
        sha256: of the encrypted file; what others keep may be another one at each look. Empty: any.

    Raises:
        NotHealthy: no key opens it, or it is not whole.
    """
    manifest: Manifest | None = None
    whole = _Summed(source)
    with _opened(cast("IO[bytes]", whole), identities) as archive:
        seen: list[Part] = []
        for name, stream in _files(archive):
            if name == MANIFEST:
                manifest = _document(stream)
            else:
                seen.append(_measured(name, stream))
        if manifest is None:
            raise Damaged("it ends without its manifest: it was interrupted")
        _compare(manifest, seen)
    if sha256 and whole.rest()[1] != sha256:
        raise _bad("the backup", "it was changed while it was read")
    return manifest


def read_parts(
    source: IO[bytes], identities: Sequence[Any], manifest: Manifest, take: Take
) -> None:
    """Hand over every part of a backup that was checked before, in its order.

    A part that is not read to its end is checked all the same, after it was handed over.

    Args:
        source: the same file again.
        identities: what opens it.
        manifest: as :func:`check_parts` found it.
        take: is called with a part and its content.

    Raises:
        NotHealthy: it is another file, or it was changed.
    """
    with _broken_is_bad():
        for part, content in _each_part(source, identities, manifest):
            take(part, content)


def read_pieces(
    source: IO[bytes], identities: Sequence[Any], manifest: Manifest, names: Collection[str]
) -> Iterator[bytes]:
    """The content of some parts of such a backup, one after the other, in its order.

    Raises:
        NotHealthy: it is another file, or it was changed.
    """
    left = set(names)
    with _broken_is_bad():
        for part, content in _each_part(source, identities, manifest):
            if not left:
                return
            if part.name in left:
                left.remove(part.name)
                while piece := content.read(CHUNK):
                    yield piece


def _each_part(
    source: IO[bytes], identities: Sequence[Any], manifest: Manifest
) -> Iterator[tuple[Part, IO[bytes]]]:
    """Part and content; its sum is compared once the next part is asked for."""
    parts, again = iter(manifest.parts), None
    with _opened(source, identities) as archive:
        for place, (name, stream) in enumerate(_files(archive)):
            if name == MANIFEST:
                again = _document(stream)
            elif place not in manifest.abandoned:
                part = next(parts, None)
                if part is None or part.name != name:
                    raise Damaged("it is not the backup that was checked")
                content = _Summed(stream)
                yield part, cast("IO[bytes]", content)
                if content.rest() != (part.size, part.sha256):
                    raise Damaged(f"{name} is not what the manifest says")
        if again != manifest or next(parts, None) is not None:
            raise Damaged("it is not the backup that was checked")


@contextmanager
def _opened(source: IO[bytes], identities: Sequence[Any]) -> Iterator[IO[bytes]]:
    with _broken_is_bad(), decrypted(source, identities) as stream:
        archive = gzip.GzipFile(fileobj=stream)
        yield cast("IO[bytes]", archive)
        while archive.read(CHUNK):
            pass


@contextmanager
def _broken_is_bad() -> Iterator[None]:
    try:
        yield
    except (Damaged, Unreadable, *BROKEN) as error:
        raise _bad("the backup", told(error)) from error


def _bad(name: str, why: str) -> NotHealthy:
    return NotHealthy(f"{name}: {why}", hint=ANOTHER_BACKUP)


def _files(archive: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each member, within limits; only regular files of names of ours."""
    total = count = 0
    names: set[str] = set()
    for tar, member in members(archive):
        count, total = count + 1, total + member.size
        if count > MOST_PARTS + 1 or total > MOST_BYTES:
            raise Damaged("it holds more than any backup")
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise Damaged("a member is not a regular file")
        if member.name != MANIFEST and not is_part_name(member.name):
            raise Damaged("a member has a name that no backup has")
        stream = tar.extractfile(member)
        if stream is None or MANIFEST in names:
            raise Damaged("something comes after the manifest")
        names.add(member.name)
        yield member.name, stream


def _document(stream: IO[bytes]) -> Manifest:
    return read_manifest(stream.read(MOST_MANIFEST_BYTES + 1))


def _measured(name: str, stream: IO[bytes]) -> Part:
    size, digest = _Summed(stream).rest()
    return Part(name, digest, size)


def _compare(manifest: Manifest, seen: Sequence[Part]) -> None:
    gone = set(manifest.abandoned)
    found = [(one.name, one.size, one.sha256) for at, one in enumerate(seen) if at not in gone]
    if found != [(one.name, one.size, one.sha256) for one in manifest.parts]:
        raise Damaged("its parts are not those of its manifest")
    etcd, snapshot = manifest.etcd, manifest.part("etcd/snapshot.db")
    if etcd is not None and (snapshot is None or snapshot.sha256 != etcd.sha256):
        raise Damaged("its snapshot of etcd is not the one that was examined")


class _Summed(io.RawIOBase):
    """A stream that sums up what is read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._sum = hashlib.sha256()
        self._size = 0

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(size)
        self._sum.update(piece)
        self._size += len(piece)
        return piece

    def readable(self) -> bool:
        return True

    def rest(self) -> tuple[int, str]:
        """Size and sha256 of all of it; reads what nobody read."""
        while self.read(CHUNK):
            pass
        return self._size, self._sum.hexdigest()
