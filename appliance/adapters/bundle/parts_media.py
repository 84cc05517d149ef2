"""The parts of a bundle on media: which are there, and whether their bytes are right.

A medium is pulled, half copied, or holds parts of another bundle. What must not be here: writing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters.bundle.signature import judge_signature
from appliance.adapters.local.control_host import require
from appliance.adapters.local.plain_files import open_plain, read_plain
from appliance.errors import BundleRefused
from appliance.model.bundle.carry.delta import Delta
from appliance.model.bundle.carry.parts import (
    INDEX,
    MOST_INDEX_BYTES,
    PARTS_DELTA,
    PARTS_MANIFEST,
    PARTS_SIGNATURE,
    PartsIndex,
)
from appliance.model.bundle.manifest import DAMAGED, BundleManifest
from appliance.model.bundle.signature import MOST_BYTES as MOST_SIGNATURE_BYTES
from appliance.model.bundle.signature import Signature
from appliance.model.documents.strict_json import MOST_BYTES, read_json
from appliance.model.programs import Use

CHUNK = 1 << 20


@dataclass(frozen=True)
class PartsDocuments:
    """The documents that every medium has.

    Attributes:
        raw_index: the index as it is written; the same bytes on every medium.
        raw_manifest: the bundle's manifest as it is written.
        raw_delta: ``delta.json`` of the bundle; None for a whole one.
        signature: the manifest's signature; None without one.
    """

    index: PartsIndex
    manifest: BundleManifest
    delta: Delta | None
    raw_index: bytes
    raw_manifest: bytes
    raw_delta: bytes | None
    signature: bytes | None

    @property
    def key(self) -> tuple[bytes, bytes | None]:
        """What all media of one bundle have; the index alone does not say what a delta lacks."""
        return self.raw_index, self.raw_delta

    def judge(self, allowed: Path | None) -> Signature:
        """The manifest's signature; checked against an allowed_signers file if one is given."""
        if allowed is None:
            return Signature("none" if self.signature is None else "unchecked")
        if self.signature is None:
            fault = f"{PARTS_SIGNATURE}: missing: this bundle is not signed"
            return Signature("missing", fault=fault)
        require(Use.SIGN)
        return judge_signature(self.signature, self.raw_manifest, allowed)


def is_parts_folder(folder: Path) -> bool:
    """Whether a folder has an index of parts."""
    return (folder / INDEX).is_file()


def read_documents(folder: Path) -> PartsDocuments:
    """The index and the bundle's documents of one medium.

    Raises:
        BundleRefused: one is missing or invalid, or they contradict each other.
    """
    raw_index = _required(folder / INDEX, MOST_INDEX_BYTES)
    raw_manifest = _required(folder / PARTS_MANIFEST, MOST_BYTES)
    index = PartsIndex.parse(raw_index, str(folder / INDEX))
    try:
        manifest = BundleManifest.parse(read_json(raw_manifest))
    except ValueError as error:
        raise BundleRefused(
            f"{folder / PARTS_MANIFEST} is invalid: {error}", hint=DAMAGED
        ) from error
    digest = hashlib.sha256(raw_manifest).hexdigest()
    raw_delta = _optional(folder / PARTS_DELTA, MOST_BYTES)
    delta = Delta.parse(raw_delta, manifest, digest) if raw_delta is not None else None
    index.require_sense(manifest, digest, delta)
    signature = _optional(folder / PARTS_SIGNATURE, MOST_SIGNATURE_BYTES)
    return PartsDocuments(index, manifest, delta, raw_index, raw_manifest, raw_delta, signature)


def same_documents(folders: Sequence[Path]) -> PartsDocuments:
    """The documents of several media, which all have the same index.

    Raises:
        BundleRefused: they are of different bundles, or cut differently.
    """
    found = [(folder, read_documents(folder)) for folder in folders]
    first_folder, first = found[0]
    for folder, other in found[1:]:
        if other.raw_index != first.raw_index:
            raise BundleRefused(
                f"{folder} holds parts of bundle {other.index.bundle[:12]} in "
                f"{len(other.index.parts)} parts, and {first_folder} of "
                f"{first.index.bundle[:12]} in {len(first.index.parts)}",
                hint="name media of one bundle only",
            )
        if other.key != first.key:
            raise BundleRefused(
                f"{folder} leaves out other files of the bundle than {first_folder}",
                hint="name media of one bundle only",
            )
    return next((other for _, other in found if other.signature is not None), first)


def parts_in(folders: Sequence[Path], index: PartsIndex) -> Mapping[int, tuple[Path, ...]]:
    """Number -> where files of that part's name are, in the order of the folders.

    Raises:
        BundleRefused: a medium is gone.
    """
    found: dict[int, list[Path]] = {}
    for folder in folders:
        try:
            names = {path.name for path in folder.iterdir()}
        except OSError as error:
            raise BundleRefused(
                f"{folder} cannot be read: {error.strerror or error}",
                hint="connect that medium again, then run the same command again",
            ) from error
        for number in index.numbers:
            if index.name(number) in names:
                found.setdefault(number, []).append(folder / index.name(number))
    return {number: tuple(paths) for number, paths in found.items()}


def chunks_of(path: Path, size: int) -> Iterator[bytes]:
    """The content of a part, which must be a regular file of this size.

    Raises:
        OSError: it cannot be read, or has another size.
    """
    with open_plain(path) as stream:
        found = os.fstat(stream.fileno()).st_size
        if found != size:
            raise OSError(0, f"{found} bytes, expected {size}", str(path))
        left = size
        while left:
            piece = stream.read(min(CHUNK, left))
            if not piece:
                raise OSError(0, f"it ends {left} bytes too early", str(path))
            left -= len(piece)
            yield piece


def part_fault(path: Path, index: PartsIndex, number: int) -> str | None:
    """What is wrong with the file of a part; None if every byte is right."""
    part = index.parts[number - 1]
    digest = hashlib.sha256()
    try:
        for piece in chunks_of(path, part.size):
            digest.update(piece)
    except OSError as error:
        return f"part {number} of {len(index.parts)}, {path}: {error.strerror or error}"
    if digest.hexdigest() != part.sha256:
        return different(path, index, number, digest.hexdigest())
    return None


def different(path: Path, index: PartsIndex, number: int, found: str) -> str:
    """The sentence for a part with other bytes."""
    expected = index.parts[number - 1].sha256
    return (
        f"part {number} of {len(index.parts)}, {path}: sha256 {found[:12]}…, "
        f"expected {expected[:12]}…"
    )


def _required(path: Path, most_bytes: int) -> bytes:
    try:
        return read_plain(path, most_bytes=most_bytes)
    except OSError as error:
        raise BundleRefused(
            f"{path} cannot be read: {error.strerror or error}",
            hint=f"each medium needs the parts and the files {INDEX} and {PARTS_MANIFEST}: copy "
            "them again from the folder that the build wrote",
        ) from error


def _optional(path: Path, most_bytes: int) -> bytes | None:
    try:
        return read_plain(path, most_bytes=most_bytes)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BundleRefused(
            f"{path} cannot be read: {error.strerror or error}", hint=DAMAGED
        ) from error
