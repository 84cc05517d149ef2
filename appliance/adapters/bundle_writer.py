"""Writes a bundle's directory from the cache: files, package index, image index, manifest last."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from appliance.adapters.artifacts.apt_repository import write_flat_repository
from appliance.adapters.artifacts.oci_layout import LAYOUT, Blob, layout_index
from appliance.adapters.bundle_directory import BundleDirectory
from appliance.adapters.cache import Cache, digest_of
from appliance.errors import ApplianceError, BuildFailed, BundleRefused, Refused
from appliance.model.bundle import MANIFEST, SIGNATURE, BundledFile, BundleManifest, Sealed
from appliance.model.taken import TakenFile

_MARKER = ".building"
_INDEXES = {
    "apt/Packages",
    "apt/Packages.gz",
    "apt/Release",
    "images/oci-layout",
    "images/index.json",
}
# Part of the signed manifest by its sha256; a fixed date keeps the same packages the same bytes.
_RELEASE_DATE = datetime(2000, 1, 1, tzinfo=UTC)


class BundleWriter:
    """One directory that becomes a bundle."""

    def __init__(self, directory: Path, cache: Cache, *, replace_other: bool = False) -> None:
        self._directory = directory.resolve()
        self._cache = cache
        self._replace_other = replace_other
        self._known: dict[str, BundledFile] = {}
        self._before: BundleManifest | None = None
        self._digest_before: str | None = None
        self._os_name = ""

    def prepare(self, release: str, os_name: str) -> None:
        """Refuse a directory that is neither empty nor a bundle of the same release and system."""
        self._os_name = os_name
        there = list(self._directory.iterdir()) if self._directory.is_dir() else []
        if (self._directory / MANIFEST).is_file():
            with contextlib.suppress(BundleRefused):
                found = BundleDirectory(self._directory)
                self._before, self._digest_before = found.manifest, found.digest
            self._refuse_other(release, os_name)
        elif there and not (self._directory / _MARKER).is_file():
            raise Refused(
                f"{self._directory} is not empty and not a bundle",
                hint="name an empty or new directory",
            )
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"{self._directory} can not be made: {error.strerror}") from error

    def _refuse_other(self, release: str, os_name: str) -> None:
        before = self._before
        if before is None or self._replace_other:
            return
        if (before.release, before.os) != (release, os_name):
            raise Refused(
                f"{self._directory} holds a bundle of {before.release} for {before.os}, "
                f"not of {release} for {os_name}",
                hint="name another directory, or give --yes to replace it",
            )

    def write(self, files: Sequence[TakenFile], images: Mapping[str, tuple[str, str]]) -> None:
        """Make the directory hold exactly these files and their indexes."""
        try:
            self._write(files, images)
        except OSError as error:
            raise BuildFailed(
                f"the bundle could not be written to {self._directory}: {error.strerror}",
                hint="make room and run the same command again; what is there stays",
            ) from error

    def _write(self, files: Sequence[TakenFile], images: Mapping[str, tuple[str, str]]) -> None:
        (self._directory / _MARKER).write_text("", encoding="utf-8")
        if not self._says_the_same(files):
            # From here on it is no bundle any more until it is sealed.
            (self._directory / MANIFEST).unlink(missing_ok=True)
        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            list(pool.map(self._place, files))
        self._known = {file.path: BundledFile(file.path, file.sha256, file.size) for file in files}
        for path in ("bin", "cni", "wheels", "images/blobs/sha256", "apt/pool"):
            (self._directory / path).mkdir(parents=True, exist_ok=True)
        self._index_packages(files)
        manifests = {
            name: (Blob(sha256, self._known[f"images/blobs/sha256/{sha256}"].size), media_type)
            for name, (sha256, media_type) in images.items()
        }
        (self._directory / "images/oci-layout").write_bytes(LAYOUT)
        (self._directory / "images/index.json").write_bytes(layout_index(manifests))

    def _says_the_same(self, files: Sequence[TakenFile]) -> bool:
        """Whether the manifest that is there already names exactly these files."""
        before = self._before.files if self._before else ()
        return {file.path: file.sha256 for file in files} == {
            file.path: file.sha256 for file in before if file.path not in _INDEXES
        }

    def _place(self, file: TakenFile) -> None:
        self._cache.place(file.sha256, self._directory / file.path, executable=file.executable)

    def _index_packages(self, files: Sequence[TakenFile]) -> None:
        pool = self._directory / "apt/pool"
        digests = {Path(file.path).name: file.sha256 for file in files if "/pool/" in file.path}
        for path in pool.iterdir():
            if path.name not in digests:
                path.unlink()
        write_flat_repository(
            self._directory / "apt",
            origin="appliance",
            suite=self._os_name,
            when=_RELEASE_DATE,
            digests=digests,
        )

    def seal(self, manifest: BundleManifest) -> Sealed:
        """Remove what is left of an earlier bundle, list every file, write the manifest."""
        (self._directory / _MARKER).unlink(missing_ok=True)
        for path in sorted(self._directory.rglob("*")):
            name = str(path.relative_to(self._directory))
            if not path.is_dir() and name not in _INDEXES | set(self._known) | {SIGNATURE}:
                path.unlink()
        for name in _INDEXES:
            self._known[name] = BundledFile(name, *digest_of(self._directory / name))
        sealed = replace(manifest, files=tuple(sorted(self._known.values(), key=lambda f: f.path)))
        if self._before and replace(self._before, created=sealed.created) == sealed:
            sealed = self._before
        content = json.dumps(sealed.as_json(), indent=1, sort_keys=True).encode() + b"\n"
        digest = hashlib.sha256(content).hexdigest()
        # Before the manifest is there: never is one beside a signature of other bytes.
        stale = digest != self._digest_before and self._remove_signature()
        partial = self._directory / f".{MANIFEST}.partial"
        partial.write_bytes(content)
        partial.replace(self._directory / MANIFEST)
        return Sealed(digest, sealed, signature_removed=stale)

    def _remove_signature(self) -> bool:
        path = self._directory / SIGNATURE
        there = path.exists() or path.is_symlink()
        path.unlink(missing_ok=True)
        return there


class Locks:
    """Digests that earlier builds of a release recorded, for sources that nothing vouched for.

    The release may ship its own (``<release>.lock`` beside it); what is found here is kept in the
    cache. A digest that was recorded is never replaced by another.
    """

    def __init__(self, release: str, releases: Path, cache: Cache) -> None:
        self._shipped = _lines(releases / f"{release}.lock")
        self._path = cache.root / "locks" / f"{release}.lock"
        self.known: dict[str, str] = {**_lines(self._path), **self._shipped}

    def record(self, learned: Mapping[str, str]) -> None:
        """Add what is not known yet."""
        fresh = {key: value for key, value in learned.items() if key not in self.known}
        if not fresh:
            return
        self.known |= fresh
        own = {key: value for key, value in self.known.items() if key not in self._shipped}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_text(
            "".join(f"{value}  {key}\n" for key, value in sorted(own.items())), encoding="utf-8"
        )
        partial.replace(self._path)


def _lines(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            digest, _, name = line.partition("  ")
            if len(digest) != 64 or not name:
                raise ApplianceError(f"{path} is not a lock file: {line!r}")
            found[name] = digest
    return found
