"""A bundle on the control host: its manifest, its digest, and the check of every byte."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path, PurePath
from typing import BinaryIO

from appliance.adapters.bundle.signature import read_signature
from appliance.adapters.local.plain_files import open_plain, read_plain
from appliance.errors import BundleRefused
from appliance.model.bundle.carry.delta import DELTA, Delta
from appliance.model.bundle.carry.parts import INDEX
from appliance.model.bundle.faults import BundleFault, Kind
from appliance.model.bundle.manifest import (
    DAMAGED,
    FOLDERS,
    MANIFEST,
    BundledFile,
    BundleManifest,
    named_by_a_build,
)
from appliance.model.bundle.signature import Signature
from appliance.model.documents.strict_json import MOST_BYTES, read_json

_CHUNK = 1 << 20


def _no_manifest(directory: Path) -> BundleRefused:
    if not directory.exists():
        return BundleRefused(
            f"the directory {directory} does not exist",
            hint="check that the medium is mounted (findmnt) and that the path is correct",
        )
    if (directory / INDEX).is_file():
        return BundleRefused(
            f"{directory} holds parts of a bundle, and not a bundle",
            hint="join the parts of all media first: "
            f"appliance bundle join {shlex.quote(str(directory))} --to DIR",
        )
    return BundleRefused(
        f"{directory} is not a bundle: it has no {MANIFEST}",
        hint=f"name the directory that holds {MANIFEST}; to resume an interrupted build: "
        f"appliance bundle build --release RELEASE --os OS {shlex.quote(str(directory))}",
    )


class BundleDirectory:
    """A directory that ``bundle build`` wrote.

    Raises:
        BundleRefused: the directory has no readable manifest.
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
                f"this user may not read {path}",
                hint=f"see its owner: ls -l {shlex.quote(str(path))}; then run the same command as "
                "that user",
            ) from error
        except (OSError, ValueError) as error:
            raise BundleRefused(f"{path} is not readable: {error}", hint=DAMAGED) from error

    @property
    def directory(self) -> str:
        """The absolute path of the bundle."""
        return str(self._path)

    @cached_property
    def digest(self) -> str:
        """sha256 of ``manifest.json``, hex: the bundle digest."""
        return hashlib.sha256(self._raw).hexdigest()

    @cached_property
    def delta(self) -> Delta | None:
        """What the bundle leaves out; None for a whole bundle.

        Raises:
            BundleRefused: its ``delta.json`` is invalid, or of another bundle.
        """
        path = self._path / DELTA
        try:
            content = read_plain(path, most_bytes=MOST_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BundleRefused(
                f"{path} is not readable: {error.strerror or error}", hint=DAMAGED
            ) from error
        return Delta.parse(content, self.manifest, self.digest)

    @property
    def elsewhere(self) -> frozenset[str]:
        """The paths that the bundle leaves out because the site has them."""
        return frozenset(self.delta.files) if self.delta else frozenset()

    def signature(self, allowed: Path | None = None) -> Signature:
        """The signature; checked against an ssh allowed_signers file if one is given.

        Raises:
            ConfigError: ``allowed`` cannot be read.
        """
        return read_signature(self._path, self._raw, allowed)

    def faults(self) -> tuple[BundleFault, ...]:
        """One per file that is missing, unexpected, or differs from the manifest.

        A file that a delta leaves out may be missing.
        """
        elsewhere = self.elsewhere
        listed = {item.path: item for item in self.manifest.files}
        # A folder that leads elsewhere, to / for example, is not walked.
        links = {folder for folder in FOLDERS if (self._path / folder).is_symlink()}
        # Other folders of the medium are neither sent nor served.
        present = {
            str(path.relative_to(self._path))
            for folder in set(FOLDERS) - links
            for path in (self._path / folder).rglob("*")
            if path.is_file() or path.is_symlink()
        }
        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            here = [f for f in listed.values() if f.path not in elsewhere or f.path in present]
            wrong = [fault for fault in pool.map(self._fault, here) if fault]
        named = {fault.path for fault in wrong}
        extra = [_extra(path) for path in sorted((present - set(listed)) | (links - named))]
        return (*wrong, *extra, *self._missing_images(listed))

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
        """The first folder of a file's path that is a link."""
        folders = [*reversed(PurePath(path).parents)][1:]
        return str(next((f for f in folders if (self._path / f).is_symlink()), folders[-1]))

    def _missing_images(self, listed: dict[str, BundledFile]) -> list[BundleFault]:
        """Images whose manifest blob is not listed: the bundle's manifest was edited."""
        return [
            BundleFault(f"image {name}: its manifest blob {digest} is not part of the bundle")
            for name, digest in self.manifest.images.items()
            if f"images/blobs/sha256/{digest.removeprefix('sha256:')}" not in listed
        ]


def _extra(path: str) -> BundleFault:
    kind: Kind = "build" if named_by_a_build(path) else "stranger"
    return BundleFault(f"{path}: is not in the manifest", kind, path)


def _unreadable(path: str, error: OSError) -> BundleFault:
    """A build can replace a link or a pipe, but not a folder or a file on a bad sector."""
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
    digest = hashlib.sha256()
    while piece := stream.read(_CHUNK):
        digest.update(piece)
    return digest.hexdigest()
