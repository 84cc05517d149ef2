"""Writes a bundle's directory from the cache: files, package index, image index, manifest last."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.oci import Blob
from appliance.adapters.local.cache import Cache, digest_of
from appliance.adapters.local.plain_files import read_plain
from appliance.builder.sources.apt.repository import write_flat_repository
from appliance.builder.sources.oci.layout import LAYOUT, layout_index
from appliance.builder.space import SMALLEST_BUNDLE_BYTES, require_space
from appliance.builder.wheel_needs import requirements
from appliance.errors import ApplianceError, BuildFailed, BundleRefused, Refused
from appliance.model.bundle.builds.fetched import FetchedFile
from appliance.model.bundle.carry.delta import DELTA, KIND, Delta, left_out
from appliance.model.bundle.carry.have import HaveList
from appliance.model.bundle.manifest import (
    FOLDERS,
    INDEXES,
    MANIFEST,
    REQUIREMENTS,
    SIGNATURE,
    UPDATE_INDEXES,
    BundledFile,
    BundleManifest,
    SealResult,
    named_by_a_build,
)
from appliance.model.documents.strict_json import MOST_BYTES, read_json

# Marks an unfinished build and lists the bundle's files: only these may be removed.
_MARKER = ".building"
ELSEWHERE = "nothing was changed there; name an empty or new directory"
# The Release file is in the signed manifest: with a fixed date, the same packages give it the same
# bytes.
_RELEASE_DATE = datetime(2000, 1, 1, tzinfo=UTC)


class BundleWriter:
    """One directory that becomes a bundle, or a delta: a bundle without the files of a list."""

    def __init__(
        self,
        directory: Path,
        cache: Cache,
        *,
        replace_other: bool = False,
        without: HaveList | None = None,
    ) -> None:
        self._directory = directory.resolve()
        self._cache = cache
        self._replace_other = replace_other
        self._known: dict[str, BundledFile] = {}
        self._before: BundleManifest | None = None
        self._digest_before: str | None = None
        self._os_name = ""
        self._without = without
        self._left_out: frozenset[str] = frozenset()
        self._owned: set[str] = set()
        self._indexes = INDEXES

    def prepare(self, release: str, os_name: str) -> None:
        """Create the directory, unless :meth:`check` refuses it."""
        self.check(release, os_name)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"{self._directory} cannot be created: {error.strerror}") from error

    def check(
        self,
        release: str,
        os_name: str,
        replaces: Callable[[str], bool] = lambda _other: False,
    ) -> None:
        """Refuse a directory that is neither empty nor a bundle of the same release and system.

        Args:
            release: the release to build.
            os_name: the nodes' operating system.
            replaces: whether a bundle of another release may be replaced; gets a sentence on it.

        Raises:
            Refused: it holds something else; nothing was changed.
            BundleRefused: there is certainly too little space for a new bundle.
        """
        self._os_name = os_name
        existing = list(self._directory.iterdir()) if self._directory.is_dir() else []
        unfinished = _files_of_marker(self._directory / _MARKER)
        try:
            if (self._directory / MANIFEST).is_file():
                bundle = BundleDirectory(self._directory)
                self._before, self._digest_before = bundle.manifest, bundle.digest
        except BundleRefused as error:
            # Other programs write a manifest.json, too: one that is not a bundle's is foreign.
            if unfinished is None:
                raise Refused(
                    f"{self._directory} holds a {MANIFEST} that is not a bundle's: {error.message}",
                    hint=ELSEWHERE,
                ) from error
        if self._before is not None:
            self._refuse_other(release, os_name, replaces)
        elif existing and unfinished is None:
            raise Refused(f"{self._directory} is not empty and not a bundle", hint=ELSEWHERE)
        self._refuse_links()
        self._refuse_foreign_delta()
        before = self._before.files if self._before else ()
        self._owned = {file.path for file in before} | (unfinished or set())
        if not existing and self._without is None:
            require_space(self._directory, SMALLEST_BUNDLE_BYTES, "a bundle")

    def _refuse_links(self) -> None:
        """Refuse symbolic links: the files behind them do not belong to the bundle."""
        for name in (*FOLDERS, "apt/pool", "updates/pool", "images/blobs", "images/blobs/sha256"):
            if (self._directory / name).is_symlink():
                raise Refused(
                    f"{self._directory / name} is a link, expected a folder of the bundle",
                    hint=ELSEWHERE,
                )

    def _refuse_foreign_delta(self) -> None:
        """Refuse a file of the delta's name that no build wrote: a build replaces or removes it."""
        path = self._directory / DELTA
        if not (path.is_symlink() or path.exists()):
            return
        if path.is_symlink() or not path.is_file() or _kind_of(path) != KIND:
            raise Refused(f"{path} is no file of a build", hint=ELSEWHERE)

    def _refuse_other(self, release: str, os_name: str, replaces: Callable[[str], bool]) -> None:
        before = self._before
        if before is None or self._replace_other:
            return
        if (before.release, before.os) != (release, os_name):
            other = (
                f"{self._directory} holds a bundle of {before.release} for {before.os}, "
                f"not of {release} for {os_name}"
            )
            self._replace_other = replaces(other)
            if not self._replace_other:
                raise Refused(other, hint="name another directory, or give --yes to replace it")

    def write(self, files: Sequence[FetchedFile], images: Mapping[str, tuple[str, str]]) -> None:
        """Make the directory hold exactly these files and their indexes."""
        try:
            self._write(files, images)
        except OSError as error:
            raise BuildFailed(
                f"the bundle could not be written to {self._directory}: {error.strerror}",
                hint="free space and run the same command again; finished files are kept",
            ) from error

    def _write(self, files: Sequence[FetchedFile], images: Mapping[str, tuple[str, str]]) -> None:
        self._refuse_strangers(files)
        self._left_out = left_out(files, self._without) if self._without else frozenset()
        updates = any(file.path.startswith("updates/") for file in files)
        self._indexes = INDEXES | UPDATE_INDEXES if updates else INDEXES
        self._owned |= {file.path for file in files} | self._indexes
        _write_marker(self._directory / _MARKER, self._owned)
        if not self._says_the_same(files):
            # From here on the directory is not a bundle until it is sealed.
            (self._directory / MANIFEST).unlink(missing_ok=True)
        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            list(pool.map(self._place, [f for f in files if f.path not in self._left_out]))
        self._known = {file.path: BundledFile(file.path, file.sha256, file.size) for file in files}
        for path in ("bin", "cni", "wheels", "images/blobs/sha256", "apt/pool"):
            (self._directory / path).mkdir(parents=True, exist_ok=True)
        self._index_packages(files, "apt")
        if updates:
            (self._directory / "updates/pool").mkdir(parents=True, exist_ok=True)
            self._index_packages(files, "updates")
        wheels = {Path(f.path).name: f.sha256 for f in files if f.path.startswith("wheels/")}
        (self._directory / REQUIREMENTS).write_text(requirements(wheels), encoding="ascii")
        manifests = {
            name: (Blob(sha256, self._known[f"images/blobs/sha256/{sha256}"].size), media_type)
            for name, (sha256, media_type) in images.items()
        }
        (self._directory / "images/oci-layout").write_bytes(LAYOUT)
        (self._directory / "images/index.json").write_bytes(layout_index(manifests))

    def _refuse_strangers(self, files: Sequence[FetchedFile]) -> None:
        """Refuse to replace a file that no build wrote."""
        foreign = [
            file.path
            for file in files
            if file.path not in self._owned
            and not named_by_a_build(file.path)
            and self._holds_another(file)
        ]
        if foreign:
            more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
            raise Refused(
                f"{self._directory}: the bundle would replace files that no build wrote: "
                f"{', '.join(sorted(foreign)[:3])}{more}",
                hint="move these files away, or name an empty or new directory; then run the same "
                "command again",
            )

    def _holds_another(self, file: FetchedFile) -> bool:
        path = self._directory / file.path
        if path.is_symlink() or not path.is_file():
            return path.is_symlink() or path.exists()
        return path.stat().st_size != file.size or digest_of(path)[0] != file.sha256

    def _says_the_same(self, files: Sequence[FetchedFile]) -> bool:
        """Whether the existing manifest lists exactly these files."""
        before = self._before.files if self._before else ()
        return {file.path: file.sha256 for file in files} == {
            file.path: file.sha256 for file in before if file.path not in INDEXES | UPDATE_INDEXES
        }

    def _place(self, file: FetchedFile) -> None:
        self._cache.place(file.sha256, self._directory / file.path, executable=file.executable)

    def _index_packages(self, files: Sequence[FetchedFile], part: str) -> None:
        pool = f"{part}/pool/"
        digests = {Path(f.path).name: f.sha256 for f in files if f.path.startswith(pool)}
        for path in (self._directory / pool).iterdir():
            wanted = path.name in digests and pool + path.name not in self._left_out
            if not wanted and self._is_ours(path):
                path.unlink()
        if not any(path.startswith(pool) for path in self._left_out):
            self._write_package_index(self._directory / part, digests)
            return
        # The index is that of the whole bundle, so it is made where every package is.
        with tempfile.TemporaryDirectory(dir=self._cache.work("index")) as name:
            folder = Path(name)
            for file in files:
                if file.path.startswith(pool):
                    self._cache.place(file.sha256, folder / "pool" / Path(file.path).name)
            self._write_package_index(folder, digests)
            for index in ("Packages", "Packages.gz", "Release"):
                shutil.copyfile(folder / index, self._directory / part / index)

    def _write_package_index(self, folder: Path, digests: Mapping[str, str]) -> None:
        write_flat_repository(
            folder,
            origin="appliance",
            suite=self._os_name,
            when=_RELEASE_DATE,
            digests=digests,
        )

    def seal(self, manifest: BundleManifest) -> SealResult:
        """Remove files of an earlier bundle, list every file, write the manifest.

        Files that no build wrote stay and are reported.
        """
        strangers = self._clear()
        for name in self._indexes:
            self._known[name] = BundledFile(name, *digest_of(self._directory / name))
        sealed = replace(manifest, files=tuple(sorted(self._known.values(), key=lambda f: f.path)))
        if self._before and replace(self._before, created=sealed.created) == sealed:
            sealed = self._before
        content = json.dumps(sealed.as_json(), indent=1, sort_keys=True).encode() + b"\n"
        digest = hashlib.sha256(content).hexdigest()
        # Before the manifest is written: it must never stand beside a signature of other bytes.
        stale = digest != self._digest_before and self._remove_signature()
        self._write_delta(digest)
        partial = self._directory / f".{MANIFEST}.partial"
        partial.write_bytes(content)
        partial.replace(self._directory / MANIFEST)
        (self._directory / _MARKER).unlink(missing_ok=True)
        return SealResult(
            digest, sealed, signature_removed=stale, strangers=strangers,
            left_out=tuple(sorted(self._left_out)),
        )  # fmt: skip

    def _write_delta(self, digest: str) -> None:
        """Write what was left out; a whole bundle has no such file."""
        path = self._directory / DELTA
        if self._without is None:
            path.unlink(missing_ok=True)
            return
        delta = Delta(KIND, digest, self._without.bundle, tuple(sorted(self._left_out)))
        partial = self._directory / f".{DELTA}.partial"
        partial.write_text(json.dumps(delta.as_json(), indent=1) + "\n", encoding="utf-8")
        partial.replace(path)

    def _clear(self) -> tuple[str, ...]:
        """Remove files of earlier builds; return the paths of files that no build wrote."""
        here = self._known.keys() - self._left_out
        ours = {SIGNATURE, MANIFEST, f".{MANIFEST}.partial", _MARKER, DELTA, f".{DELTA}.partial"}
        keep = {*self._indexes, *here, *ours}
        strangers = []
        for path in sorted(self._directory.rglob("*")):
            name = str(path.relative_to(self._directory))
            if (path.is_dir() and not path.is_symlink()) or name in keep:
                continue
            if self._is_ours(path):
                path.unlink()
            else:
                strangers.append(name)
        return tuple(strangers)

    def _is_ours(self, path: Path) -> bool:
        """Whether a build wrote the file: it is listed, or has a name that only builds use."""
        name = path.relative_to(self._directory)
        finished = name.with_name(name.name.removeprefix(".").removesuffix(".partial"))
        listed = str(name) in self._owned or str(finished) in self._owned
        own_folder = name.parts[0] in FOLDERS
        return own_folder and (listed or named_by_a_build(str(name)))

    def _remove_signature(self) -> bool:
        path = self._directory / SIGNATURE
        existed = path.exists() or path.is_symlink()
        path.unlink(missing_ok=True)
        return existed


def _files_of_marker(path: Path) -> set[str] | None:
    """The bundle's files according to an unfinished build; None without such a build."""
    if path.is_symlink() or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text:  # earlier versions wrote an empty marker
        return set()
    try:
        names = json.loads(text)["files of this bundle"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else None


def _kind_of(path: Path) -> object:
    """The kind that a JSON document states; None if there is none."""
    try:
        document = read_json(read_plain(path, most_bytes=MOST_BYTES))
    except (OSError, ValueError):
        return None
    return document.get("kind") if isinstance(document, dict) else None


def _write_marker(path: Path, files: Collection[str]) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps({"files of this bundle": sorted(files)}), encoding="utf-8")
    partial.replace(path)


class Locks:
    """Digests that earlier builds of a release recorded for sources without a known digest.

    The release may ship such digests (``<release>.lock``); new ones are stored in the cache. A
    recorded digest is never replaced.
    """

    def __init__(self, release: str, releases: Path, cache: Cache) -> None:
        self._shipped = _lines(releases / f"{release}.lock")
        self._path = cache.root / "locks" / f"{release}.lock"
        self.known: dict[str, str] = {**_lines(self._path), **self._shipped}

    def record(self, learned: Mapping[str, str]) -> None:
        """Add digests that are not known yet."""
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
    digests = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            digest, _, name = line.partition("  ")
            if len(digest) != 64 or not name:
                raise ApplianceError(f"{path} is not a lock file: {line!r}")
            digests[name] = digest
    return digests
