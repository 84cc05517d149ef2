"""A folder of .deb files as a flat apt repository: Packages, Packages.gz and Release.

The same packages give the same bytes, in any order and at any time. What must not be here: the
choice of packages (see ``isolated.py``), or signing (the bundle's manifest is signed as a whole).
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from appliance.adapters.local import processes
from appliance.builder.sources.apt.sources import stanza_fields
from appliance.errors import BuildFailed


@dataclass(frozen=True)
class PooledPackage:
    """One .deb of the repository, as its control file describes it."""

    name: str
    version: str
    architecture: str
    path: str
    sha256: str
    size: int


def write_flat_repository(
    folder: Path,
    *,
    origin: str,
    suite: str,
    when: datetime,
    digests: Mapping[str, str] | None = None,
) -> tuple[PooledPackage, ...]:
    """Index ``folder/pool/*.deb`` so that ``deb [trusted=yes] URL ./`` serves them.

    Args:
        folder: the repository; its indexes are written beside ``pool``.
        origin: the vendor, shown by ``apt-cache policy``.
        suite: the operating system of the packages.
        when: the Release file's date.
        digests: sha256 by file name, if just checked; then the file is not read again.

    Raises:
        BuildFailed: the pool holds a package twice in the same version.
        CommandFailed: a file is not a package.
    """
    paths = sorted((folder / "pool").glob("*.deb"))
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        entries = list(pool.map(lambda path: _entry(path, digests or {}), paths))
    entries.sort(key=lambda entry: (entry[0].name, entry[0].version))
    packages = tuple(package for package, _ in entries)
    _refuse_duplicates(packages)
    index = "\n".join(text for _, text in entries).encode()
    (folder / "Packages").write_bytes(index)
    (folder / "Packages.gz").write_bytes(gzip.compress(index, mtime=0))
    (folder / "Release").write_text(
        _release(folder, packages, origin, suite, when), encoding="utf-8"
    )
    return packages


def _entry(path: Path, digests: Mapping[str, str]) -> tuple[PooledPackage, str]:
    control = processes.run(
        ["dpkg-deb", "--field", path],
        hint="download the .deb again: it is damaged or not a package",
    ).stdout.strip()
    digest = digests.get(path.name)
    if digest is None:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    fields = stanza_fields(control)
    package = PooledPackage(
        name=fields["package"],
        version=fields["version"],
        architecture=fields["architecture"],
        path=f"pool/{path.name}",
        sha256=digest,
        size=path.stat().st_size,
    )
    place = f"Filename: ./{package.path}\nSize: {package.size}\nSHA256: {digest}\n"
    return package, f"{control}\n{place}"


def _refuse_duplicates(packages: Sequence[PooledPackage]) -> None:
    paths: dict[tuple[str, str, str], str] = {}
    duplicates = []
    for item in packages:
        other = paths.setdefault((item.name, item.version, item.architecture), item.path)
        if other != item.path:
            duplicates.append(f"{item.name} {item.version}: {other} and {item.path}")
    if duplicates:
        raise BuildFailed("the package pool holds the same package twice", details=duplicates)


def _release(
    folder: Path, packages: Sequence[PooledPackage], origin: str, suite: str, when: datetime
) -> str:
    architectures = sorted({item.architecture for item in packages} - {"all"})
    lines = [
        f"Origin: {origin}",
        f"Label: {origin}",
        f"Suite: {suite}",
        f"Codename: {suite}",
        f"Date: {when.astimezone(UTC):%a, %d %b %Y %H:%M:%S} UTC",
        f"Architectures: {' '.join(architectures)}",
        "SHA256:",
    ]
    for name in ("Packages", "Packages.gz"):
        content = (folder / name).read_bytes()
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}")
    return "\n".join(lines) + "\n"
