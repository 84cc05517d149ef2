"""The releases that kept backups were made with, by the files beside the backups.

A restore needs the images of its release. What must not be here: the backups themselves.
"""

from __future__ import annotations

from pathlib import Path

from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.store import BackupStore
from appliance.errors import ApplianceError, Refused
from appliance.model.backup.kept import KeptBackups


def kept_backups(target: str) -> KeptBackups:
    """The backups of a place, as far as the files beside them tell.

    Args:
        target: where backups are kept.
    """
    if not target.startswith("/"):
        return KeptBackups(
            unknown=f"which releases the backups at {target} need is not read from here"
        )
    try:
        held = BackupStore(FolderPlace(Path(target))).held()
    except Refused:
        # A share that is not mounted: its backups need images all the same.
        return KeptBackups(
            unknown=f"{target} is not there, so what its backups need is unknown: mount it"
        )
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
