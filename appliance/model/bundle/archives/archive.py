"""A package archive of a release, and the keys that sign it.

A fingerprint stands in a release only where it was read in a citable place; it is never invented.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9./_:@%+~-]+$", max_length=300)]
Address = Annotated[str, StringConstraints(pattern=r"^https?://[A-Za-z0-9./_:%+~-]+$")]


class Frozen(BaseModel):
    """Immutable data without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ArchiveKey(Frozen):
    """One key that signs an archive: the fingerprint of the primary key, and its owner's name."""

    fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9A-F]{40}$")]
    title: str


class Keyring(Frozen):
    """The keys of an archive, and where the file with them comes from.

    Attributes:
        keys: any of them may sign; one of them has to be had.
        url: where their owner publishes the file. Its content is compared with ``keys``.
        package: the package that brings the file, on systems that have it; empty for none.
    """

    keys: tuple[ArchiveKey, ...] = Field(min_length=1)
    url: Address
    package: Annotated[str, StringConstraints(pattern=r"^[a-z0-9+.-]*$")] = ""

    @property
    def fingerprints(self) -> frozenset[str]:
        """The fingerprints that are trusted."""
        return frozenset(key.fingerprint for key in self.keys)

    @property
    def file(self) -> str:
        """A name for the file that is fetched from ``url``."""
        return f"{self.keys[-1].fingerprint[-16:].lower()}.gpg"


class AptArchive(Frozen):
    """A package archive of a target operating system, as apt is to see it.

    Attributes:
        uri: its address.
        suites: such as ``focal`` and ``focal-updates``.
        components: such as ``main`` and ``universe``; none where the suite is a path (``/``).
        keyring: the keys that its signatures are checked with.
    """

    uri: Address
    suites: tuple[Word, ...] = Field(min_length=1)
    components: tuple[Word, ...] = ()
    keyring: Keyring

    def stanza(self, keyring: str) -> str:
        """The archive as a deb822 stanza, checked with the keys in the file ``keyring``."""
        components = f"Components: {' '.join(self.components)}\n" if self.components else ""
        return (
            f"Types: deb\nURIs: {self.uri}\nSuites: {' '.join(self.suites)}\n"
            f"{components}Signed-By: {keyring}\n"
        )


def without_keys(archives: Sequence[AptArchive], found: Collection[str]) -> tuple[AptArchive, ...]:
    """The archives of whose keys none was found."""
    return tuple(item for item in archives if not item.keyring.fingerprints & set(found))


def missing_keys(
    archives: Sequence[AptArchive], places: Sequence[str], packages_here: Collection[str]
) -> list[str]:
    """For archives without a key: which key each needs, where it was looked for, how to get it.

    Args:
        archives: those of whose keys none was found.
        places: files and folders that were searched.
        packages_here: packages with keys that this machine's own archives have.
    """
    lines = []
    for archive in archives:
        lines.append(f"{archive.uri} ({' '.join(archive.suites)}) is signed by one of these keys:")
        lines += [f"    {key.fingerprint} {key.title}" for key in archive.keyring.keys]
    lines.append(f"looked for in: {', '.join(places)}")
    lines.append("get them, then run the command of the hint:")
    return [*lines, *(f"    {line}" for line in _ways(archives, packages_here))]


def _ways(archives: Sequence[AptArchive], packages_here: Collection[str]) -> Iterator[str]:
    rings = {item.keyring.url: item.keyring for item in archives}
    for ring in rings.values():
        if ring.package in packages_here:
            yield f"sudo apt-get install {ring.package}"
        else:
            yield f"curl -fsSL -o {ring.file} {shlex.quote(ring.url)}"


def keyring_options(archives: Sequence[AptArchive], packages_here: Collection[str]) -> list[str]:
    """The options that ``bundle build`` then needs; none where packages bring all keys."""
    rings: Mapping[str, Keyring] = {item.keyring.url: item.keyring for item in archives}
    files = [ring.file for ring in rings.values() if ring.package not in packages_here]
    return [f"--keyring {name}" for name in files]
