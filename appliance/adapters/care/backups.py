"""The releases that kept backups were made with, by the files beside the backups.

A restore needs the images of its release. What must not be here: the backups themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, Refused
from appliance.model.backup.kept import KeptBackups

if TYPE_CHECKING:
    from appliance.adapters.backup.store import BackupStore


def kept_backups(opened: Callable[[str], BackupStore], target: str) -> KeptBackups:
    """The backups of a place, as far as the files beside them tell.

    Args:
        opened: the store at a place.
        target: where backups are kept.
    """
    try:
        held = opened(target).held()
    except Refused as error:
        # A share that is not mounted: its backups need images all the same.
        if target.startswith("/"):
            return KeptBackups(
                unknown=f"{target} is not there, so what its backups need is unknown: mount it"
            )
        return KeptBackups(unknown=f"what the backups at {target} need: {error.message}")
    except ApplianceError as error:
        return KeptBackups(unknown=error.message)
    told = [one.sidecar for one in held if one.sidecar is not None]
    unread = [one for one in held if one.sidecar is None and one.state == "damaged"]
    return KeptBackups(
        frozenset(one.about.release for one in told),
        frozenset(one.sha256 for one in told),
        f"{target}: {unread[0].id}: {unread[0].why}, so the release of it is unknown"
        if unread
        else "",
    )
