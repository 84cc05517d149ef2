"""What is known of the newest backup of a site, and the refusal where it is not fresh."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, PreflightFailed
from appliance.model.backup.freshness import NEWEST, Newest, newest_of, staleness
from appliance.model.documents.strict_json import Unreadable
from appliance.model.site.recovery.carried import DATABASES, carried_by

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


def ask_where_data_is(
    site: Site, session: Session, names: Collection[str], *, only_said: bool
) -> None:
    """Ask for a fresh backup where one of these nodes carries data; with it the databases it holds.

    Args:
        site: the site.
        session: its ports.
        names: of the nodes that are about to be taken out of service or changed.
        only_said: as for :func:`ask_for_fresh_backup`.

    Raises:
        PreflightFailed: there is no fresh backup; nothing was changed.
    """
    if not (carried := carried_by(site, names)):
        return
    ask_for_fresh_backup(
        site,
        session,
        "; ".join(one.sentence() for one in carried),
        only_said=only_said,
        databases=any(one.databases for one in carried),
    )


def ask_for_fresh_backup(
    site: Site, session: Session, what: str, *, only_said: bool, databases: bool | None = None
) -> None:
    """Refuse without a fresh backup, or only say that there is none.

    Args:
        site: the site.
        session: its ports.
        what: what is about to be done, or the nodes and what they carry.
        only_said: it goes on: the operator accepted that, nothing is changed, or it began before,
            with a fresh backup or without.
        databases: whether it has to hold Run:ai's databases; None: where the site has Run:ai.

    Raises:
        PreflightFailed: there is no fresh backup; nothing was changed.
    """
    if databases is None:
        databases = site.settings.runai is not None
    try:
        require_fresh_backup(site, session, what, databases=databases)
    except PreflightFailed as error:
        if not only_said:
            raise
        session.observer.note(f"warning: {error.message}")


def require_fresh_backup(
    site: Site, session: Session, what: str, *, databases: bool = False
) -> None:
    """Refuse what may lose data while the site asks for backups and has no fresh one.

    Args:
        site: the site.
        session: its ports.
        what: what is about to be done, for the message.
        databases: it has to hold Run:ai's databases.

    Raises:
        PreflightFailed: there is none, it is old or lacks them, or nobody knows; nothing was
            changed.
    """
    wanted, newest = site.settings.backup, newest_backup(site, session)
    if wanted is None or newest is None:
        return
    why = staleness(newest, site.name, wanted, session.clock.now(), databases=databases)
    if why:
        whole = f" and holds {DATABASES}" if databases else ""
        raise PreflightFailed(
            f"{what}: {why}, expected one that is younger than {wanted.fresh_hours} hours{whole}",
            hint="make one: appliance cluster backup create; to go on without one, run the same "
            "command with --without-backup",
        )
