"""Write a bundle as parts, each a file of limited size, for media such as FAT32.

Parts that are there already with the right bytes stay: an interrupted run resumes. What must not be
here: joining them (see ``join.py``).
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.bundle.parts_media import CHUNK, is_parts_folder, read_documents
from appliance.adapters.local.plain_files import open_plain
from appliance.builder.space import require_space
from appliance.errors import BuildFailed, Refused
from appliance.model.bundle.carry.delta import DELTA
from appliance.model.bundle.carry.parts import (
    INDEX,
    KIND,
    MOST_PARTS,
    PARTS_DELTA,
    PARTS_MANIFEST,
    PARTS_SIGNATURE,
    Part,
    PartsIndex,
    Segment,
    part_name,
    part_sizes,
    segments,
    travelling,
)
from appliance.model.bundle.manifest import MANIFEST, SIGNATURE

_SHOWN: Final = 12

if TYPE_CHECKING:
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.model.bundle.manifest import BundledFile


@dataclass(frozen=True)
class PartsResult:
    """The written parts.

    Attributes:
        folder: where they are.
        index: what they are.
        kept: how many were there already.
    """

    folder: Path
    index: PartsIndex
    kept: int


def parts_folder(bundle: BundleDirectory) -> Path:
    """The folder beside the bundle that gets its parts; named after the bundle's digest."""
    path = Path(bundle.directory)
    return path.with_name(f"{path.name}-parts-{bundle.digest[:12]}")


def write_parts(
    bundle: BundleDirectory, part_bytes: int, note: Callable[[str], None]
) -> PartsResult:
    """Cut a bundle into parts beside it; the index is written last.

    Args:
        bundle: a bundle or a delta.
        part_bytes: the largest size of a part.
        note: gets a sentence for each part.

    Raises:
        Refused: the folder holds something else, or there would be too many parts.
        BundleRefused: there is too little space.
        BuildFailed: a file of the bundle changed, or a part could not be written.
    """
    folder = parts_folder(bundle)
    files = travelling(bundle.manifest, bundle.delta)
    sizes = part_sizes(files, part_bytes)
    if not sizes:
        raise Refused(
            f"parts of {part_bytes} bytes would be more than {MOST_PARTS}",
            hint="give a larger size with --parts",
        )
    _refuse_other(folder, bundle, part_bytes)
    try:
        folder.mkdir(exist_ok=True)
        there = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        require_space(folder, max(sum(sizes) - there, 0), "the parts")
        return _write(bundle, folder, part_bytes, files, note)
    except OSError as error:
        raise BuildFailed(
            f"the parts could not be written to {folder}: {error.strerror or error}",
            hint="free space and run the same command again; whole parts are kept",
        ) from error


def _refuse_other(folder: Path, bundle: BundleDirectory, part_bytes: int) -> None:
    """Refuse a folder that holds anything but parts of this bundle, cut in this size."""
    if not (folder.is_symlink() or folder.exists()):
        return
    remove = f"move it away: mv {shlex.quote(str(folder))} ELSEWHERE"
    if folder.is_symlink() or not folder.is_dir():
        raise Refused(f"{folder} is not a folder", hint=remove)
    if is_parts_folder(folder):
        found = read_documents(folder)
        if (found.index.bundle, found.index.part_bytes) != (bundle.digest, part_bytes):
            raise Refused(
                f"{folder} holds parts of {found.index.part_bytes} bytes, not of {part_bytes}",
                hint=remove,
            )
        # A delta and its whole bundle have one digest, so one folder.
        if found.delta != bundle.delta:
            raise Refused(
                f"{folder} holds parts that leave out other files than {bundle.directory}",
                hint=remove,
            )
    elif not all(_is_our_name(path.name, bundle.digest) for path in folder.iterdir()):
        raise Refused(f"{folder} is not empty and holds no parts", hint=remove)


def _is_our_name(name: str, digest: str) -> bool:
    """Whether a run writes a file of this name before the index, whole or half written."""
    whole = name.removeprefix(".").removesuffix(".partial")
    documents = (INDEX, PARTS_MANIFEST, PARTS_SIGNATURE, PARTS_DELTA)
    return whole in documents or whole.startswith(f"bundle-{digest[:_SHOWN]}-part-")


def _write(
    bundle: BundleDirectory,
    folder: Path,
    part_bytes: int,
    files: Sequence[BundledFile],
    note: Callable[[str], None],
) -> PartsResult:
    source = Path(bundle.directory)
    reader = _Reader(source, files)
    parts, kept = [], 0
    cut = list(segments(files, part_bytes))
    for number, wanted in enumerate(cut, 1):
        name = part_name(bundle.digest, number, len(cut))
        part, was_there = _one(folder / name, reader, wanted)
        parts.append(part)
        kept += was_there
        note(f"part {number} of {len(cut)}: {name}" + (" (kept)" if was_there else ""))
    reader.require_whole()
    executable = tuple(file.path for file in files if (source / file.path).stat().st_mode & 0o100)
    index = PartsIndex(KIND, bundle.digest, part_bytes, tuple(parts), executable)
    _copy(source / MANIFEST, folder / PARTS_MANIFEST)
    for name, target in ((SIGNATURE, PARTS_SIGNATURE), (DELTA, PARTS_DELTA)):
        if (source / name).is_file():
            _copy(source / name, folder / target)
        else:
            (folder / target).unlink(missing_ok=True)  # of a run that was killed
    _replace(folder / INDEX, json.dumps(index.as_json(), indent=1).encode() + b"\n")
    return PartsResult(folder, index, kept)


class _Reader:
    """Reads segments of files, and compares each file with the manifest as it passes."""

    def __init__(self, source: Path, files: Sequence[BundledFile]) -> None:
        self._source = source
        self._expected = {file.path: file for file in files}
        self._hashes = {file.path: hashlib.sha256() for file in files if file.size}

    def pieces(self, segment: Segment) -> Iterator[bytes]:
        """The bytes of a segment."""
        with open_plain(self._source / segment.path) as stream:
            stream.seek(segment.offset)
            left = segment.length
            while left:
                piece = stream.read(min(CHUNK, left))
                if not piece:
                    raise _changed(segment.path)
                self._hashes[segment.path].update(piece)
                left -= len(piece)
                yield piece

    def require_whole(self) -> None:
        """Refuse files that were not read as the manifest describes them.

        Raises:
            BuildFailed: a file differs.
        """
        for path, found in self._hashes.items():
            if found.hexdigest() != self._expected[path].sha256:
                raise _changed(path)


def _changed(path: str) -> BuildFailed:
    return BuildFailed(
        f"{path} differs from the bundle's manifest: the parts are not complete",
        hint="run the same command again: it repairs the bundle first",
    )


def _one(target: Path, reader: _Reader, wanted: Sequence[Segment]) -> tuple[Part, bool]:
    """Write one part, unless it is there with the same bytes."""
    size = sum(segment.length for segment in wanted)
    there = _digest_of_part(target, size)
    partial = target.with_name(f".{target.name}.partial")
    digest = hashlib.sha256()
    with (partial if there is None else Path(os.devnull)).open("wb") as copy:
        for segment in wanted:
            for piece in reader.pieces(segment):
                digest.update(piece)
                copy.write(piece)
        copy.flush()
        if there is None:
            os.fsync(copy.fileno())
    part = Part(size, digest.hexdigest())
    if there is None:
        partial.replace(target)
    elif there != part.sha256:
        raise BuildFailed(
            f"{target} has the size of a part and other bytes",
            hint=f"remove it and run the same command again: rm {shlex.quote(str(target))}",
        )
    return part, there is not None


def _digest_of_part(path: Path, size: int) -> str | None:
    """The sha256 of a part that is there in full; None otherwise."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != size:
        return None
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.partial")
    shutil.copyfile(source, partial)
    partial.replace(target)


def _replace(target: Path, content: bytes) -> None:
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(content)
    partial.replace(target)
