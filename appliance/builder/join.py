"""Join the parts of a bundle from media that come one after the other.

A part counts only when all its bytes were read and have the right sha256; what was read before a
medium was pulled is read again. ``manifest.json`` is written last: without it DIR is no bundle.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from appliance.adapters.bundle.parts_media import (
    PartsDocuments,
    chunks_of,
    different,
    is_parts_folder,
    parts_in,
    read_documents,
    same_documents,
)
from appliance.adapters.local.plain_files import read_plain
from appliance.builder.joining import JoiningFolder, State, alone_in
from appliance.builder.space import require_space
from appliance.errors import BuildFailed, BundleRefused, Refused
from appliance.model.bundle.carry.delta import DELTA
from appliance.model.bundle.carry.parts import (
    INDEX,
    Segment,
    numbers_in_words,
    segments,
    travelling,
)
from appliance.model.bundle.manifest import MANIFEST, SIGNATURE
from appliance.model.documents.strict_json import MOST_BYTES


@dataclass(frozen=True)
class JoinResult:
    """A joined bundle.

    Attributes:
        digest: the bundle digest.
        joined: the parts that this call read; none if the bundle was joined before.
    """

    digest: str
    joined: tuple[int, ...]


def join_parts(places: Sequence[Path], target: Path, note: Callable[[str], None]) -> JoinResult:
    """Add the parts in ``places`` to ``target``; it becomes the bundle when none is missing.

    Args:
        places: folders with parts, or files of parts.
        target: an empty or new directory, or one of an earlier join of the same parts.
        note: gets a sentence for each part.

    Raises:
        Refused: the target holds something else; nothing was changed.
        BundleRefused: a medium has no index, or the media are of different bundles.
        BuildFailed: parts are still missing or damaged; those that were read are kept.
    """
    target = target.resolve()
    folders = _folders(places)
    documents = same_documents(folders)
    if _is_free(target, documents):
        needed = sum(file.size for file in travelling(documents.manifest, documents.delta))
        require_space(target, needed, "the joined bundle")
    try:
        with alone_in(target):
            # Another join may have ended meanwhile.
            _is_free(target, documents)
            if _is_joined(target, documents):
                JoiningFolder(target).forget()
                return JoinResult(documents.index.bundle, ())
            return _Join(target, documents, note).carry_out(places, folders)
    except OSError as error:
        raise BuildFailed(
            f"{target} could not be written: {error.strerror or error}",
            hint="free space there and run the same command again; joined parts are kept",
        ) from error


def _folders(places: Sequence[Path]) -> list[Path]:
    """The folders of the places; each has an index."""
    folders = list(dict.fromkeys(p if p.is_dir() else p.parent for p in places))
    for folder in folders:
        if not is_parts_folder(folder):
            raise BundleRefused(
                f"{folder} holds no parts of a bundle: it has no {INDEX}",
                hint="name the folders of the media that hold the parts; findmnt shows what is "
                "mounted",
            )
    return folders


def _is_joined(target: Path, documents: PartsDocuments) -> bool:
    """Whether the target is the bundle of these parts.

    Raises:
        Refused: it is that bundle without files that these parts bring.
    """
    try:
        if read_plain(target / MANIFEST, most_bytes=MOST_BYTES) != documents.raw_manifest:
            return False
    except OSError:
        return False
    # A delta has the manifest of its whole bundle. A target without the file is whole.
    delta = _delta_in(target)
    if delta in (None, documents.raw_delta):
        return True
    these = "another delta" if documents.delta else "the whole bundle"
    raise Refused(
        f"{target} is this bundle as a delta, and these are parts of {these}",
        hint="nothing was changed there; name an empty or new directory with --to",
    )


def _delta_in(target: Path) -> bytes | None:
    """The file that makes a bundle a delta; what cannot be read is like no other."""
    try:
        return read_plain(target / DELTA, most_bytes=MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError:
        return b""


def _is_free(target: Path, documents: PartsDocuments) -> bool:
    """Whether a join can begin in the target; False where one began, or ended, before.

    Raises:
        Refused: the target holds something else.
    """
    if not (target.exists() or target.is_symlink()):
        return True
    if not target.is_dir():
        raise Refused(f"{target} is not a folder", hint="name an empty or new directory with --to")
    if _is_joined(target, documents):
        return False
    before = JoiningFolder(target)
    if not before.is_begun:
        # A kill at the very beginning leaves the folder without its index.
        if any(path != before.path or not before.is_ours for path in target.iterdir()):
            raise Refused(
                f"{target} is not empty, and no parts were joined there",
                hint="nothing was changed there; name an empty or new directory with --to",
            )
        return True
    other = read_documents(before.path)
    if other.key != documents.key:
        raise Refused(
            f"{target} is being joined from other parts: of bundle {other.index.bundle[:12]}",
            hint="nothing was changed there; name an empty or new directory with --to",
        )
    return False


class _Join:
    """One call: the target, what the parts are, and how far it is."""

    def __init__(
        self, target: Path, documents: PartsDocuments, note: Callable[[str], None]
    ) -> None:
        self._target = target
        self._documents = documents
        self._index = documents.index
        self._note = note
        self._files = travelling(documents.manifest, documents.delta)
        self._cut: Sequence[tuple[Segment, ...]] = list(
            segments(self._files, self._index.part_bytes)
        )
        self._folder = JoiningFolder(target)
        self._state = State()
        self._faults: list[str] = []

    def carry_out(self, places: Sequence[Path], folders: Sequence[Path]) -> JoinResult:
        """Read what is missing and there; end the bundle if nothing is missing."""
        self._folder.begin(self._documents)
        self._state = self._folder.state(len(self._cut))
        found = _named(places, parts_in(folders, self._index))
        for number, paths in found.items():
            self._state.seen[number] = str(paths[0])
        joined = []
        for number in self._index.numbers:
            if number in self._state.done:
                continue
            if any(self._read(number, path) for path in found.get(number, ())):
                self._state.done.add(number)
                self._folder.keep(self._state)
                joined.append(number)
                self._note(f"part {number} of {len(self._cut)} is joined")
        missing = [number for number in self._index.numbers if number not in self._state.done]
        if missing:
            raise self._missing(missing, places)
        self._require_whole()
        self._seal()
        return JoinResult(self._index.bundle, tuple(joined))

    def _read(self, number: int, path: Path) -> bool:
        """Write the bytes of a part to the files that it holds; whether all were right."""
        part = self._index.parts[number - 1]
        digest = hashlib.sha256()
        pieces = chunks_of(path, part.size)
        sink = _Sink(self._target, self._cut[number - 1])
        with closing(sink):
            while True:
                try:
                    piece = next(pieces, b"")
                except OSError as error:
                    self._faults.append(
                        f"part {number} of {len(self._cut)}, {path}: {error.strerror or error}; "
                        "connect that medium again, or copy the part again"
                    )
                    return False
                if not piece:
                    break
                digest.update(piece)
                sink.write(piece)
        if digest.hexdigest() != part.sha256:
            self._faults.append(different(path, self._index, number, digest.hexdigest()))
            return False
        # A part that counts survives a power cut.
        os.sync()
        return True

    def _missing(self, missing: Sequence[int], places: Sequence[Path]) -> BuildFailed:
        self._folder.keep(self._state)
        lines = [*self._faults]
        for number in missing:
            where = self._state.seen.get(number)
            last = f" (last seen as {where})" if where else ""
            lines.append(f"part {number} is missing: {self._index.name(number)}{last}")
        typed = f"appliance bundle join {shlex.join(map(str, places))}"
        return BuildFailed(
            f"{self._target} is not a bundle yet: {len(self._state.done)} of {len(self._cut)} "
            f"parts are joined, missing: {numbers_in_words(missing)}",
            details=lines,
            hint="connect the medium with a missing part and run the command again with its "
            f"folder: {typed} --to {shlex.quote(str(self._target))}",
        )

    def _require_whole(self) -> None:
        """Compare every file with the manifest.

        Raises:
            BuildFailed: a file differs; its parts are read again by the next call.
        """
        wrong = []
        for file in self._files:
            path = _confined(self._target, file.path)
            if file.size == 0:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            if _is_right(path, file.size, file.sha256):
                path.chmod(0o755 if file.path in self._index.executable else 0o644)
            else:
                wrong.append(file.path)
        if not wrong:
            return
        again = [
            number
            for number, cut in enumerate(self._cut, 1)
            if any(segment.path in wrong for segment in cut)
        ]
        self._state.done -= set(again)
        self._folder.keep(self._state)
        raise BuildFailed(
            f"{self._target}: {_count(wrong)} from the bundle's manifest: parts "
            f"{numbers_in_words(again)} have to be read again",
            details=wrong,
            hint="run the same command again with their media; if the same files differ again, the "
            "parts are not those of this bundle: get them again from their sender",
        )

    def _seal(self) -> None:
        """Write the documents, the manifest last, and forget how far it was."""
        documents, signature = self._documents, self._folder.signature()
        if signature is not None:
            (self._target / SIGNATURE).write_bytes(signature)
        if documents.raw_delta is not None:
            (self._target / DELTA).write_bytes(documents.raw_delta)
        partial = self._target / f".{MANIFEST}.partial"
        partial.write_bytes(documents.raw_manifest)
        # After a power cut a manifest must not stand beside files that never came to the disk.
        os.sync()
        partial.replace(self._target / MANIFEST)
        os.sync()
        self._folder.forget()


class _Sink:
    """Takes the bytes of a part in order, and writes them where they belong."""

    def __init__(self, target: Path, cut: Sequence[Segment]) -> None:
        self._target = target
        self._rest = list(cut)
        self._room = 0
        self._stream: BinaryIO | None = None

    def write(self, piece: bytes) -> None:
        """Write the next bytes."""
        view = memoryview(piece)
        while view:
            if self._stream is None:
                segment = self._rest.pop(0)
                self._stream, self._room = _opened(self._target, segment), segment.length
            count = self._stream.write(view[: self._room])
            view = view[count:]
            self._room -= count
            if self._room == 0:
                self.close()

    def close(self) -> None:
        """Close the file at hand; it may be incomplete."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _opened(target: Path, segment: Segment) -> BinaryIO:
    path = _confined(target, segment.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    stream = os.fdopen(os.open(path, flags, 0o644), "wb")
    stream.seek(segment.offset)
    return stream


def _confined(target: Path, name: str) -> Path:
    """The path of a file in the target, with no link on the way."""
    path = target / name
    if path.parent.resolve() != path.parent:
        raise BundleRefused(
            f"{path.parent} is a link, expected a folder of the bundle",
            hint="name an empty or new directory with --to",
        )
    return path


def _count(wrong: Sequence[str]) -> str:
    return "1 file differs" if len(wrong) == 1 else f"{len(wrong)} files differ"


def _is_right(path: Path, size: int, sha256: str) -> bool:
    try:
        digest = hashlib.sha256()
        for piece in chunks_of(path, size):
            digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == sha256


def _named(
    places: Sequence[Path], found: Mapping[int, tuple[Path, ...]]
) -> dict[int, tuple[Path, ...]]:
    """Only the parts that were named, each file or with its folder."""
    whole = {place for place in places if place.is_dir()}
    kept = {
        number: tuple(path for path in paths if path.parent in whole or path in places)
        for number, paths in found.items()
    }
    return {number: paths for number, paths in kept.items() if paths}
