"""The releases that kept backups were made with, by the files beside the backups.

A restore needs the images of its release. What must not be here: the backups themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.errors import ApplianceError
from appliance.model.documents.strict_json import read_json

if TYPE_CHECKING:
    from appliance.adapters.backup.store import BackupStore

SUFFIX: Final = ".backup.json"
MOST_BYTES: Final = 1 << 20
_RELEASE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def releases_of_backups(
    target: str, opened: Callable[[str], BackupStore]
) -> tuple[frozenset[str], str]:
    """The releases, and why not all of them are known; empty where they are.

    Args:
        target: where the site keeps its backups; empty: nowhere.
        opened: the backups of a place on another machine, by its name.
    """
    if not target:
        return frozenset(), ""
    if not target.startswith("/"):
        return _elsewhere(target, opened)
    releases: set[str] = set()
    unknown = ""
    try:
        files = sorted(path for path in Path(target).iterdir() if path.name.endswith(SUFFIX))
    except FileNotFoundError:
        # A share that is not mounted: its backups need images all the same.
        return frozenset(), f"{target} is not there, so what its backups need is unknown: mount it"
    except OSError as error:
        return frozenset(), f"the backups in {target} cannot be listed: {error.strerror}"
    for path in files:
        try:
            release = str(read_json(read_plain(path, most_bytes=MOST_BYTES))["release"])
        except (OSError, ValueError, LookupError, TypeError):
            unknown = f"{path} is not readable, so the release of its backup is unknown"
            continue
        if _RELEASE.fullmatch(release):
            releases.add(release)
        else:
            unknown = f"{path} names no release"
    return frozenset(releases), unknown


def _elsewhere(target: str, opened: Callable[[str], BackupStore]) -> tuple[frozenset[str], str]:
    try:
        held = opened(target).held()
    except ApplianceError as error:
        return frozenset(), f"which releases the backups at {target} need: {error.message}"
    releases = {one.sidecar.about.release for one in held if one.sidecar}
    unread = [one.id for one in held if one.sidecar is None and one.state != "interrupted"]
    if unread or not all(_RELEASE.fullmatch(one) for one in releases):
        told = unread[0] if unread else "a backup"
        return frozenset(releases), f"{told} at {target} names no release that can be read"
    return frozenset(releases), ""
