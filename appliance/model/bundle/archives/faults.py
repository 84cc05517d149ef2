"""What apt's complaint about a package archive means, and what helps.

The words are those of apt 2.0 to 3.0 and of the verifiers that it starts, gpgv and sqv. A complaint
that no row knows is shown as apt wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_ARCHIVE: Final = re.compile(
    r"(?:^Err:\d+ |GPG error: |The repository '|Failed to fetch |Release file for )"
    r"(?P<uri>[a-z]+:[^ ']*)"
)


@dataclass(frozen=True)
class ArchiveFault:
    """One cause: the words by which it is recognised, what it means, and what to do."""

    words: str
    meaning: str
    hint: str


OTHER: Final = ArchiveFault("", "", "check the archive's address and the key that signs it")
_TAMPERED: Final = "use another mirror or network; never build from an archive that was changed"
FAULTS: Final = (
    ArchiveFault(
        r"is expired \(invalid since",
        "its index has expired (Valid-Until)",
        "compare this machine's clock (date -u); if it is right, use a mirror that is up to date",
    ),
    ArchiveFault(
        r"is not valid yet",
        "its index is not valid yet",
        "compare this machine's clock (date -u)",
    ),
    ArchiveFault(
        r"\bEXPKEYSIG\b|\bKEYEXPIRED\b|(?i:certificate.*expired|key\b.* is expired)",
        "the key that signs it has expired",
        "get its owner's new copy of the key and name it with --keyring FILE",
    ),
    ArchiveFault(
        r"\bREVKEYSIG\b|(?i:revoked)",
        "the key that signs it was revoked",
        "ask for a release that names the new key",
    ),
    ArchiveFault(
        r"\bBADSIG\b|(?i:bad signature|signature verification failed|Message has been manipulated)",
        "it was changed after it was signed",
        _TAMPERED,
    ),
    ArchiveFault(
        r"\bNO_PUBKEY\b|(?i:Missing key)",
        "it is signed by a key that the release does not name",
        "check the archive's address; if its owner has a new key, ask for a release that names it",
    ),
    ArchiveFault(
        r"Hash Sum mismatch|File has unexpected size",
        "an index differs from its signed list",
        "run the same command again in an hour: the mirror may be in the middle of an update; if "
        "that does not help, use another mirror",
    ),
    ArchiveFault(
        r"is not signed|NODATA|does not have a Release file|no longer has a Release file",
        "it is not signed",
        "check the archive's address",
    ),
)


def fault_of(complaint: Sequence[str]) -> ArchiveFault:
    """The first known cause in apt's lines."""
    text = "\n".join(complaint)
    return next((row for row in FAULTS if re.search(row.words, text)), OTHER)


def causes(
    complaint: Sequence[str], archives: Sequence[str]
) -> dict[ArchiveFault, tuple[str, ...]]:
    """Each cause in apt's lines -> the archives that have it; all of them if apt names none.

    A line without an address belongs to the archive of the line before it.
    """
    said: dict[str, list[str]] = {}
    last = ""
    for line in complaint:
        named = _ARCHIVE.search(line)
        if named:
            last = _archive_of(named["uri"], archives)
        elif line.startswith(("E:", "W:")):
            last = ""
        if last:
            said.setdefault(last, []).append(line)
    if not said:
        return {fault_of(complaint): tuple(archives)}
    found: dict[ArchiveFault, tuple[str, ...]] = {}
    for uri in (uri for uri in archives if uri in said):
        fault = fault_of(said[uri])
        found[fault] = (*found.get(fault, ()), uri)
    return found


def _archive_of(address: str, archives: Sequence[str]) -> str:
    """The archive that an address is below; empty for none."""
    below = [uri for uri in archives if f"{address}/".startswith(f"{uri.rstrip('/')}/")]
    return max(below, key=len, default="")
