"""Create a backup: gather, encrypt, write, check what was written, and let old ones go.

A run that is killed leaves no file that could be taken for a backup; the same command removes what
it left, by the name that it wrote down before. What must not be here: what is in a backup
(:mod:`appliance.workflows.cluster.backups.gathering`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, NotHealthy, StepNotVerified
from appliance.model.backup.freshness import NEWEST, newest_of
from appliance.model.backup.kept import noted_places
from appliance.model.backup.names import IMAGES, VOLUMES, backup_id, is_backup_id
from appliance.model.backup.record import About, Manifest, Sidecar, sidecar_text
from appliance.model.backup.retention import Keep, strangers, superseded
from appliance.model.backup.volumes.choice import space_needed
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.workflows.cluster.backups.gathering import Asked, asked_of, gather
from appliance.workflows.cluster.backups.images import ImageSources, plan_images
from appliance.workflows.cluster.backups.volumes import (
    VolumesAsked,
    VolumeSources,
    VolumesPlan,
    plan_volumes,
)
from appliance.workflows.session.confirmation import require_confirmed
from appliance.workflows.session.recording import Recorder

if TYPE_CHECKING:
    from appliance.model.backup.holdings import Held
    from appliance.model.site.settings import Site
    from appliance.model.state.journal import Run
    from appliance.workflows.session.ports import JournalPort
    from appliance.workflows.session.session import Session

COMMAND: Final = "cluster backup create"
STEP: Final = "backup"
KEPT: Final = "backup kept"
# On this machine: the name of a backup that is being written.
UNFINISHED: Final = "backups/unfinished.json"
# As it is written into the journal.
_SHA256: Final = re.compile(r"\bsha256 ([0-9a-f]{64})\b")


@dataclass(frozen=True)
class BackupRequest:
    """What was asked for, by whom.

    Attributes:
        site: the site.
        run: of the command.
        recipients: public keys that open the backup.
        keep: which older ones stay.
        tool_version: of this product.
        volumes: whose data is saved, too.
    """

    site: Site
    run: Run
    recipients: tuple[str, ...]
    keep: Keep
    tool_version: str
    dry_run: bool = False
    volumes: VolumesAsked = field(default_factory=VolumesAsked)


@dataclass(frozen=True)
class BackupResult:
    """How it ended.

    Attributes:
        planned: what would be saved, in lines.
        sidecar: of the new backup; None: none was made.
        removed: older ones that went.
        stayed: older ones that should have gone, and why they did not.
        took_seconds: of the new one.
    """

    planned: tuple[str, ...]
    sidecar: Sidecar | None = None
    removed: tuple[str, ...] = ()
    stayed: tuple[str, ...] = ()
    took_seconds: float = 0.0


@dataclass
class _Course:
    removed: list[str] = field(default_factory=list)
    stayed: list[str] = field(default_factory=list)


def create_backup(
    request: BackupRequest,
    session: Session,
    confirm: Callable[[Sequence[str]], bool],
    sources: VolumeSources | None = None,
    images: ImageSources | None = None,
) -> BackupResult:
    """Make a backup, check it, and let superseded ones go.

    Args:
        request: what was asked for.
        session: its ports.
        confirm: asks whether what would be saved is what is wanted.
        sources: of volumes, where some were asked for.
        images: the registry, where its images were asked for.

    Raises:
        PreflightFailed: volumes or images that were asked for cannot be saved; nothing was changed.
        Refused: the operator did not confirm, or another command holds the site.
        ClusterError: there is no snapshot of etcd; there is no backup.
        CommandFailed: the place did not take it; older ones are untouched.
        StepNotVerified: what was written is not what the place holds.
    """
    volumes = plan_volumes(request.site, request.volumes, sources)
    free, taken = request.volumes.free_bytes, space_needed(volumes.found)
    more = (*volumes.lines(), *plan_images(request.site, images, free, taken))
    planned = _planned(request, session, more)
    if request.dry_run:
        return BackupResult(planned)
    require_confirmed(confirm(planned))
    began, course = session.clock.monotonic(), _Course()
    with session.lock:
        recorder = Recorder(request.run, session)
        names = [node.name for node in request.site.control_plane]
        with recorder.run_step(STEP, names, (f"to {session.backup_store.told}",)):
            _tidy(session)
            sidecar = _write(request, session, _more(request.site, (volumes, sources), images))
        with recorder.run_step(KEPT, names, (_told(sidecar, session),)):
            _keep_word(session, sidecar)
            _retire(request, session, sidecar, course)
    took = session.clock.monotonic() - began
    return BackupResult(planned, sidecar, tuple(course.removed), tuple(course.stayed), took)


def _more(
    site: Site, of_volumes: tuple[VolumesPlan, VolumeSources | None], images: ImageSources | None
) -> tuple[Asked, ...]:
    """Who is asked for volumes, and for images: the most comes last."""
    (volumes, sources), found = of_volumes, []
    if volumes.node is not None and sources is not None:
        choice, begin = volumes.choice, sources.of_volumes
        found.append(Asked(volumes.node, (VOLUMES,), lambda name: begin(choice, name)))
    if images is not None:
        found.append(Asked(site.services_node, (IMAGES,), images.of_images))
    return tuple(found)


def _planned(request: BackupRequest, session: Session, more: Sequence[str]) -> tuple[str, ...]:
    site, keep = request.site, request.keep
    first, *_ = site.control_plane
    lines = [
        f"{first.name}: a snapshot of etcd, restored once there",
        *(f"{one.node.name}: {one.told}" for one in asked_of(site)),
        *more,
        f"this machine: {site.directory}, journal, passports",
        f"to {session.backup_store.told}; public keys that open it: {len(request.recipients)}",
    ]
    if len(request.recipients) < 2:
        lines.append("only one key opens it: add an escrow key to backup: recipients")
    now = session.clock.now()
    # One more will be whole by then.
    held, known = session.backup_store.held(), known_backups(session.journal)
    going = superseded(held, site.name, _one_less(keep), now, known)
    others = strangers(held, site.name, known)
    return (
        *lines,
        *_gone(site, session, held),
        *(f"removed once it is whole: {one.id}" for one in going),
        *([_stay(others)] if others else []),
    )


def _gone(site: Site, session: Session, held: Sequence[Held]) -> tuple[str, ...]:
    """A folder whose share is not mounted is empty, and on the disk of this machine."""
    try:
        newest = newest_of(session.documents.read(NEWEST)).sidecar
        place = json.loads(session.documents.read(NEWEST) or "{}").get("to")
    except (ApplianceError, Unreadable, ValueError, AttributeError):
        return ()
    told = session.backup_store.told
    if newest is None or newest.about.site != site.name or place != told:
        return ()
    if any(one.id == newest.about.id for one in held):
        return ()
    line = f"the newest backup, {newest.about.id}, is not in {told} any more: is that mounted?"
    session.observer.note(line)
    return (line,)


def _stay(others: Sequence[Held]) -> str:
    return (
        f"{len(others)} backups of this name stay, because the journal of this site does not know "
        f"them; the newest is {others[-1].id}"
    )


def _one_less(keep: Keep) -> Keep:
    return Keep(keep.count - 1, keep.days) if keep.count > 1 else keep


def _tidy(session: Session) -> None:
    """Remove what a run that was killed left in this place, by its own note."""
    found = session.documents.read(UNFINISHED)
    if found is None:
        return
    try:
        note = read_json(found, most_bytes=4096)
    except Unreadable:
        return
    left = note.get("id") if isinstance(note, dict) else None
    same = isinstance(note, dict) and note.get("to") == session.backup_store.told
    if same and isinstance(left, str) and is_backup_id(left):
        if session.backup_store.remove_unfinished(left):
            session.observer.note(f"removed what an interrupted run left: {left}")
        _note(session, {})


def _note(session: Session, note: dict[str, str]) -> None:
    session.documents.keep(UNFINISHED, json.dumps(note))


def _write(request: BackupRequest, session: Session, more: Sequence[Asked]) -> Sidecar:
    site, store, moment = request.site, session.backup_store, session.clock.now()
    name = backup_id(site.name, moment)
    about = About(
        id=name,
        site=site.name,
        created=datetime.fromtimestamp(int(moment), UTC).isoformat("T", "seconds"),
        release=site.settings.appliance_release,
        tool_version=request.tool_version,
        recipients=store.fingerprints(request.recipients),
        kinds=(),
    )
    endpoint = site.settings.control_plane_endpoint
    _note(session, {"id": name, "to": store.told})
    try:
        with store.new(name, request.recipients, moment) as writer:
            found = gather(site, name, session, writer, more)
            about = replace(about, kubernetes=found.kubernetes)
            versions = {"etcd": found.etcd.version, "appliance": request.tool_version}
            address = f"{endpoint.name}:{endpoint.port}"
            writer.finish(Manifest(about, address, (), found.etcd, versions))
            session.observer.note("checking what was written")
        sidecar = store.beside(name)
    except NotHealthy as error:
        raise StepNotVerified(error.message, hint="run the same command again") from error
    if sidecar != writer.sidecar:
        raise StepNotVerified(
            f"{name}: {store.told} holds another file than was written",
            hint="see who else writes there; then run the same command again",
        )
    _note(session, {})
    return sidecar


def _told(sidecar: Sidecar, session: Session) -> str:
    about = sidecar.about
    missing = f", {len(about.missing)} missing" if about.missing else ""
    return (
        f"{about.id}: {sidecar.size} bytes, sha256 {sidecar.sha256}, to "
        f"{session.backup_store.told}{missing}"
    )


def _keep_word(session: Session, sidecar: Sidecar) -> None:
    """Let other machines know of it; a control plane without a majority is no fault of it."""
    document = json.loads(sidecar_text(sidecar))
    text = json.dumps({**document, "to": session.backup_store.told}, indent=1)
    session.documents.keep(NEWEST, text)
    try:
        for missed in session.archive.put(NEWEST, text):
            session.observer.note(missed)
    except ApplianceError as error:
        session.observer.note(f"other machines do not know of this backup: {error.message}")


def known_backups(journal: JournalPort) -> frozenset[str]:
    """The sha256 of each backup that the journal of a site has."""
    told = (line for record in journal.read() if record.command == COMMAND for line in record.why)
    return frozenset(found for line in told for found in _SHA256.findall(line))


def noted_backups(journal: JournalPort) -> dict[str, dict[str, str]]:
    """Place -> sha256 -> id of each backup that the journal of a site has, the oldest first."""
    records = sorted(journal.read(), key=lambda one: (one.run, one.sequence))
    return noted_places(line for one in records if one.command == COMMAND for line in one.why)


def _retire(request: BackupRequest, session: Session, new: Sidecar, course: _Course) -> None:
    """Remove superseded ones; each only as long as it is whole and this site's."""
    store, site, now = session.backup_store, request.site.name, session.clock.now()
    known = {*known_backups(session.journal), new.sha256}
    held = store.held()
    begun = [one for one in held if one.state == "being removed"]
    for one in (*begun, *superseded(held, site, request.keep, now, known)):
        try:
            if one not in begun:
                store.remove(one.id, site)
            elif not store.end_removal(one.id, known):
                continue
            course.removed.append(one.id)
        except (ApplianceError, OSError) as error:
            course.stayed.append(f"{one.id}: {error}")
