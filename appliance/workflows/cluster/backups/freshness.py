"""What is known of the newest backup of a site, and the refusal where it is not fresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, PreflightFailed
from appliance.model.backup.freshness import NEWEST, Newest, newest_of, staleness
from appliance.model.documents.strict_json import Unreadable

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.workflows.session.session import Session


def newest_backup(site: Site, session: Session) -> Newest | None:
    """What the control-plane nodes, or this machine, know of it; None where no site asks for one.

    The newer of both counts: a control plane that was restored may know an older one.
    """
    if site.settings.backup is None:
        return None
    found = [newest_of(_kept(session))]
    try:
        found.append(newest_of(session.archive.get(NEWEST)))
    except ApplianceError as error:
        found.append(Newest(unread=error.message))
    known = [one for one in found if one.sidecar and one.sidecar.about.site == site.name]
    if known:
        return max(known, key=lambda one: one.sidecar.about.created if one.sidecar else "")
    return next((one for one in found if one.unread), Newest())


def _kept(session: Session) -> str | None:
    try:
        return session.documents.read(NEWEST)
    except Unreadable:
        return None


def ask_for_fresh_backup(site: Site, session: Session, what: str, *, only_said: bool) -> None:
    """Refuse without a fresh backup, or only say that there is none.

    Args:
        site: the site.
        session: its ports.
        what: what is about to be done.
        only_said: it goes on: the operator accepted that, nothing is changed, or it began before,
            with a fresh backup or without.

    Raises:
        PreflightFailed: there is no fresh backup; nothing was changed.
    """
    try:
        require_fresh_backup(site, session, what)
    except PreflightFailed as error:
        if not only_said:
            raise
        session.observer.note(f"warning: {error.message}")


def require_fresh_backup(site: Site, session: Session, what: str) -> None:
    """Refuse what may lose data while the site asks for backups and has no fresh one.

    Args:
        site: the site.
        session: its ports.
        what: what is about to be done, for the message.

    Raises:
        PreflightFailed: there is none, it is old, or nobody knows; nothing was changed.
    """
    wanted, newest = site.settings.backup, newest_backup(site, session)
    if wanted is None or newest is None:
        return
    why = staleness(newest, site.name, wanted, session.clock.now())
    if why:
        raise PreflightFailed(
            f"{what}: {why}, expected one that is younger than {wanted.fresh_hours} hours",
            hint="make one: appliance cluster backup create; to go on without one, run the same "
            "command with --without-backup",
        )
