"""What places hold of the backups that a journal knows, and which releases those need.

A share that is not mounted looks like a folder without backups: only a backup that the journal
knows is evidence that the place is the right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

# As ``cluster backup create`` writes it into the journal.
_TOLD: Final = re.compile(
    r"(?P<id>\S+): [0-9]+ bytes, sha256 (?P<sha256>[0-9a-f]{64}), to (?P<to>.+?)"
    r"(?:, [0-9]+ missing)?"
)


@dataclass(frozen=True)
class KeptBackups:
    """The backups of one place.

    Attributes:
        releases: that they were made with.
        sha256s: of their files, by what lies beside them.
        unknown: why not all of them are known; empty where they are.
    """

    releases: frozenset[str] = frozenset()
    sha256s: frozenset[str] = frozenset()
    unknown: str = ""


def noted_places(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Place -> sha256 -> id of each backup that went there, the oldest first.

    Args:
        lines: what a journal has of the backups that were made, the oldest first.
    """
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        told = _TOLD.fullmatch(line)
        if told:
            found.setdefault(told["to"], {})[told["sha256"]] = told["id"]
    return found


def absence(place: str, kept: KeptBackups, noted: Mapping[str, str]) -> str:
    """Why a place that can be read is not that of these backups, in words; empty where it is.

    The newest backup always stays, so one of them is there.
    """
    if kept.unknown or not noted or kept.sha256s & set(noted):
        return ""
    newest = list(noted.values())[-1]
    return (
        f"{place} has none of the backups that the journal knows there, the newest {newest}, so "
        "which releases they need is unknown: is it mounted?"
    )
