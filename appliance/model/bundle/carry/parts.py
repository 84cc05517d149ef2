"""A bundle in parts, for media whose file system limits the size of a file.

The parts are the bundle's files, one after the other in the order of their paths, cut every
``part_bytes``. So each part says by the manifest alone which bytes of which files it holds: parts
are joined in any order, and none has to be stored twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from appliance.errors import BundleRefused
from appliance.model.bundle.carry.delta import Delta
from appliance.model.bundle.manifest import (
    DAMAGED,
    MOST_FILES,
    BundledFile,
    BundleManifest,
    BundlePath,
    Sha256,
    Size,
)
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import read_typed

SCHEMA: Final = 1
KIND: Final = "bundle parts"
INDEX: Final = "parts.json"
# The documents of the bundle, beside the index: never named manifest.json, which makes a bundle.
PARTS_MANIFEST: Final = "parts-manifest.json"
PARTS_SIGNATURE: Final = "parts-manifest.json.sig"
PARTS_DELTA: Final = "parts-delta.json"
MOST_PARTS: Final = 999
MOST_INDEX_BYTES: Final = 16 << 20
SMALLEST_BYTES: Final = 1_000_000
LARGEST_BYTES: Final = 10**12
_UNITS: Final = {"M": 10**6, "G": 10**9, "MB": 10**6, "GB": 10**9, "MIB": 1 << 20, "GIB": 1 << 30}
_SIZE: Final = re.compile(r"([1-9]\d{0,5})([A-Za-z]{1,3})")
_SHOWN: Final = 12


@dataclass(frozen=True)
class Part:
    """One part: its size in bytes and its sha256."""

    size: Size
    sha256: Sha256


@dataclass(frozen=True)
class Segment:
    """Bytes of one file that lie in one part, in order."""

    path: str
    offset: int
    length: int


@dataclass(frozen=True)
class PartsIndex:
    """What the parts of one bundle are.

    Attributes:
        kind: tells this document from others.
        bundle: digest of the bundle's manifest.
        part_bytes: size of each part but the last.
        parts: in order; the first is number 1.
        executable: the paths that are programs; FAT media lose this.
    """

    kind: Literal["bundle parts"]
    bundle: Sha256
    part_bytes: Annotated[int, Field(ge=1, le=1 << 50)]
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=MOST_PARTS)]
    executable: Annotated[tuple[BundlePath, ...], Field(max_length=MOST_FILES)] = ()

    @classmethod
    def parse(cls, content: bytes, where: str) -> PartsIndex:
        """Read an index; ``where`` is its path, for the message.

        Raises:
            BundleRefused: it is not an index of this schema.
        """
        try:
            return read_typed(content, cls, newest_schema=SCHEMA, most_bytes=MOST_INDEX_BYTES)
        except Unreadable as error:
            raise BundleRefused(f"{where} is invalid: {error}", hint=DAMAGED) from error

    def as_json(self) -> dict[str, Any]:
        """The inverse of :meth:`parse`."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "bundle": self.bundle,
            "part_bytes": self.part_bytes,
            "parts": [vars(part) for part in self.parts],
            "executable": list(self.executable),
        }

    @property
    def numbers(self) -> range:
        """The numbers of the parts."""
        return range(1, len(self.parts) + 1)

    def name(self, number: int) -> str:
        """File name of a part; names sort in the order of the parts."""
        return part_name(self.bundle, number, len(self.parts))

    def require_sense(self, manifest: BundleManifest, digest: str, delta: Delta | None) -> None:
        """Compare the index with the bundle that it belongs to.

        Raises:
            BundleRefused: it is of another bundle, or its sizes do not fit the bundle's files.
        """
        if self.bundle != digest:
            raise BundleRefused(
                f"{INDEX} belongs to bundle {self.bundle[:_SHOWN]}, and {PARTS_MANIFEST} beside it "
                f"is that of {digest[:_SHOWN]}",
                hint=DAMAGED,
            )
        wanted = part_sizes(travelling(manifest, delta), self.part_bytes)
        if tuple(part.size for part in self.parts) != wanted:
            raise BundleRefused(
                f"{INDEX} has {len(self.parts)} parts whose sizes are not those of the bundle's "
                f"files in parts of {self.part_bytes} bytes",
                hint=DAMAGED,
            )
        unknown = set(self.executable) - {file.path for file in manifest.files}
        if unknown:
            raise BundleRefused(
                f"{INDEX} names {min(unknown)}, which is not in the manifest", hint=DAMAGED
            )


def part_name(digest: str, number: int, count: int) -> str:
    """File name of part ``number`` of ``count`` of the bundle with this digest."""
    width = len(str(count))
    return f"bundle-{digest[:_SHOWN]}-part-{number:0{width}}-of-{count}"


def travelling(manifest: BundleManifest, delta: Delta | None) -> tuple[BundledFile, ...]:
    """The files that a bundle brings, in the order of the parts."""
    absent = set(delta.files) if delta else set()
    files = (file for file in manifest.files if file.path not in absent)
    return tuple(sorted(files, key=lambda file: file.path))


def part_sizes(files: Sequence[BundledFile], part_bytes: int) -> tuple[int, ...]:
    """Size of each part; a last part of zero bytes exists only in a bundle without content."""
    total = sum(file.size for file in files)
    whole, rest = divmod(total, max(part_bytes, 1))
    if whole > MOST_PARTS:
        return ()
    return (*(part_bytes for _ in range(whole)), *((rest,) if rest or not whole else ()))


def segments(files: Sequence[BundledFile], part_bytes: int) -> Iterator[tuple[Segment, ...]]:
    """For each part in order: which bytes of which files it holds."""
    found: list[Segment] = []
    room = part_bytes
    for file in files:
        offset = 0
        while offset < file.size:
            length = min(room, file.size - offset)
            found.append(Segment(file.path, offset, length))
            offset += length
            room -= length
            if room == 0:
                yield tuple(found)
                found, room = [], part_bytes
    if found or not any(file.size for file in files):
        yield tuple(found)


def size_of(text: str) -> int:
    """The bytes that SIZE means: 4G is 4,000,000,000, and 4GiB is 4,294,967,296.

    Raises:
        ValueError: it is no size, or outside 1M to 1000G; says which.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not a size: write 4G for FAT32, or 700M")
    size = int(match[1]) * unit
    if not SMALLEST_BYTES <= size <= LARGEST_BYTES:
        raise ValueError(f"{text!r} is outside 1M to 1000G")
    return size


def numbers_in_words(numbers: Sequence[int]) -> str:
    """Numbers as a person writes them: ``1, 3 to 5``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = []
    for run in runs:
        words += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(number) for number in run]
    return ", ".join(words) or "none"
