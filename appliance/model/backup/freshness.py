"""How old the newest backup of a site is, by what was written down of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from appliance.model.backup.names import COUNTS, GLOBALS, RUNAI, id_moment
from appliance.model.backup.record import Sidecar, read_sidecar
from appliance.model.documents.strict_json import Unreadable
from appliance.model.site.recovery.backup_settings import Backup
from appliance.model.site.recovery.carried import DATABASES

# Of the archive, on the control-plane nodes: the newest backup that was checked.
NEWEST: Final = "backups/newest.json"
# What names the databases where a backup lacks them: all of Run:ai, one of them, or what they need.
_OF_DATABASES: Final = (RUNAI, COUNTS, GLOBALS, "runai/databases")
# Of a clock that runs ahead.
_AHEAD_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class Newest:
    """What is known of the newest backup.

    Attributes:
        sidecar: of it; None: there is none, or it cannot be read.
        unread: why nothing is known; empty where the answer is sure.
    """

    sidecar: Sidecar | None = None
    unread: str = ""


def newest_of(text: str | None) -> Newest:
    """What was written down of the newest backup; None: nothing was."""
    if text is None:
        return Newest()
    try:
        return Newest(read_sidecar(text))
    except Unreadable as error:
        return Newest(unread=f"what is kept of the newest backup cannot be read: {error}")


def staleness(
    newest: Newest, site: str, wanted: Backup, now: float, *, databases: bool = False
) -> str:
    """Why the newest backup is not fresh, in words; empty where it is.

    Args:
        newest: what is known of it.
        site: the site's name.
        wanted: what the site says.
        now: seconds since 1970.
        databases: one without each of Run:ai's databases is not fresh.
    """
    if newest.unread:
        return newest.unread
    if newest.sidecar is None or newest.sidecar.about.site != site:
        return "no backup of this site is known"
    age = now - (id_moment(newest.sidecar.about.id) or 0.0)
    hours = age / 3600
    if age < -_AHEAD_SECONDS:
        return f"the newest backup, {newest.sidecar.about.id}, is from a time that is still to come"
    if hours > wanted.fresh_hours:
        return f"the newest backup, {newest.sidecar.about.id}, is {hours:.0f} hours old"
    return _lacks_databases(newest.sidecar) if databases else ""


def _lacks_databases(sidecar: Sidecar) -> str:
    about = sidecar.about
    for one in about.missing:
        if one.what in _OF_DATABASES or one.what.startswith("runai/databases/"):
            return f"the newest backup, {about.id}, lacks {DATABASES}: {one.where}: {one.why}"
    return "" if RUNAI in about.kinds else f"the newest backup, {about.id}, lacks {DATABASES}"
