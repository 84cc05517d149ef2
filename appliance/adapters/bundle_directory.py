"""A bundle on the control host: its manifest, its digest, and whether every byte is right."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path, PurePath
from typing import BinaryIO

from appliance.adapters.bundle_signature import read_signature
from appliance.adapters.plain_files import open_plain, read_plain
from appliance.errors import BundleRefused
from appliance.model.bundle import (
    DAMAGED,
    FOLDERS,
    MANIFEST,
    BundledFile,
    BundleManifest,
    named_by_a_build,
)
from appliance.model.bundle_faults import BundleFault, Kind
from appliance.model.signature import Signature
from appliance.model.strict_json import MOST_BYTES, read_json

_CHUNK = 1 << 20


def _no_manifest(directory: Path) -> BundleRefused:
    if not directory.exists():
        return BundleRefused(
            f"there is no directory {directory}",
            hint="is the medium in its place and mounted (findmnt), and the path right?",
        )
    return BundleRefused(
        f"{directory} is not a bundle: it has no {MANIFEST}",
        hint=f"name the directory that holds {MANIFEST}; a build that was interrupted goes on: "
        f"appliance bundle build --release RELEASE --os OS {shlex.quote(str(directory))}",
    )


class BundleDirectory:
    """A directory that ``bundle build`` made.

    Raises:
        BundleRefused: there is no readable manifest in it.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory.resolve()
        path = self._path / MANIFEST
        try:
            self._raw = read_plain(path, most_bytes=MOST_BYTES)
            self.manifest = BundleManifest.parse(read_json(self._raw))
        except FileNotFoundError:
            raise _no_manifest(self._path) from None
        except PermissionError as error:
            raise BundleRefused(
                f"{path} may not be read by this user",
                hint=f"who may? ls -l {shlex.quote(str(path))}; then the same command as that user",
            ) from error
        except (OSError, ValueError) as error:
            raise BundleRefused(f"{path} is not readable: {error}", hint=DAMAGED) from error

    @property
    def directory(self) -> str:
        """Its absolute path."""
        return str(self._path)

    @cached_property
    def digest(self) -> str:
        """sha256 of ``manifest.json``, hex: the bundle digest."""
        return hashlib.sha256(self._raw).hexdigest()

    def signature(self, allowed: Path | None = None) -> Signature:
        """Its signature; checked against an ssh allowed_signers file when one is given.

        Raises:
            ConfigError: ``allowed`` can not be read.
        """
        return read_signature(self._path, self._raw, allowed)

    def faults(self) -> tuple[BundleFault, ...]:
        """One per file that is missing, extra, or not what the manifest says."""
        wanted = {item.path: item for item in self.manifest.files}
        # What lies beside a bundle's folders on its medium is neither sent nor served.
        there = {
            str(path.relative_to(self._path))
            for folder in FOLDERS
            for path in (self._path / folder).rglob("*")
            if path.is_file() or path.is_symlink()
        }
        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            wrong = [fault for fault in pool.map(self._fault, wanted.values()) if fault]
        extra = [_extra(path) for path in sorted(there - set(wanted))]
        return (*wrong, *extra, *self._missing_images(wanted))

    def _fault(self, item: BundledFile) -> BundleFault | None:
        path = self._path / item.path
        try:
            if path.parent.resolve() != path.parent:
                return BundleFault(
                    f"{item.path}: its folder is a link", "in the way", self._link(item.path)
                )
            with open_plain(path) as stream:
                size = os.fstat(stream.fileno()).st_size
                if size != item.size:
                    return BundleFault(f"{item.path}: {size} bytes, expected {item.size}")
                digest = _sha256(stream)
        except FileNotFoundError:
            return BundleFault(f"{item.path}: missing")
        except OSError as error:
            return _unreadable(item.path, error)
        if digest != item.sha256:
            return BundleFault(f"{item.path}: sha256 {digest[:12]}…, expected {item.sha256[:12]}…")
        return None

    def _link(self, path: str) -> str:
        """The first folder on the way to a file that is a link."""
        folders = [*reversed(PurePath(path).parents)][1:]
        return str(next((f for f in folders if (self._path / f).is_symlink()), folders[-1]))

    def _missing_images(self, wanted: dict[str, BundledFile]) -> list[BundleFault]:
        """Images whose manifest is not among the files at all: a manifest that was edited."""
        return [
            BundleFault(f"image {name}: its manifest blob {digest} is not part of the bundle")
            for name, digest in self.manifest.images.items()
            if f"images/blobs/sha256/{digest.removeprefix('sha256:')}" not in wanted
        ]


def _extra(path: str) -> BundleFault:
    kind: Kind = "build" if named_by_a_build(path) else "stranger"
    return BundleFault(f"{path}: is not in the manifest", kind, path)


def _unreadable(path: str, error: OSError) -> BundleFault:
    """A build replaces a link or a pipe; in a folder's place, or on a bad sector, it fails."""
    text = f"{path}: not readable: {error.strerror}"
    if isinstance(error, PermissionError):
        return BundleFault(text, "access", path)
    if isinstance(error, IsADirectoryError) or error.errno == errno.EIO:
        return BundleFault(text, "in the way", path)
    if isinstance(error, NotADirectoryError):
        return BundleFault(text, "in the way", str(PurePath(path).parent))
    return BundleFault(text)


def _sha256(stream: BinaryIO) -> str:
    """Hex sha256 of a file, read in pieces; hashing releases the interpreter lock."""
    found = hashlib.sha256()
    while piece := stream.read(_CHUNK):
        found.update(piece)
    return found.hexdigest()
