"""``cluster restore --only images``: the site's registry gets images of a backup that it lacks.

A tag that names another image by now is left alone. The same command goes on after a kill: what was
pushed is there. What must not be here: what forbids it
(:mod:`appliance.model.backup.restoring.images`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Final, Protocol

from appliance.errors import NotHealthy
from appliance.model.backup.names import ANOTHER_BACKUP, IMAGE_RECORD, id_moment
from appliance.model.backup.restoring.images import (
    MOST_RECORD_BYTES,
    AskedImages,
    ImagesPlan,
    ImagesView,
    SavedImage,
    SavedImages,
    is_what_its_name_says,
    of_a_registry_elsewhere,
    parted,
    plan_images,
    read_images,
    wanted_of,
)
from appliance.model.documents.strict_json import Unreadable
from appliance.workflows.cluster.backup import known_backups
from appliance.workflows.cluster.restore import restored_backups
from appliance.workflows.cluster.restoring.ports import OpenedBackup
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.backup.record import Part
    from appliance.model.site.settings import Site
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session

COMMAND: Final = "cluster restore"
STEP: Final = f"{COMMAND}: images"
TOLD_BYTES: Final = 1 << 30
_GB: Final = 1e9


class Images(Protocol):
    """The registry that the appliance runs."""

    def look(self, images: Mapping[str, str]) -> ImagesView:
        """What it has otherwise than name -> digest; nothing changes.

        Raises:
            NodeUnreachable: the node does not answer, or not as it should.
        """

    def load(
        self,
        backup: str,
        images: Sequence[SavedImage],
        blobs: Sequence[Part],
        pieces: Iterable[bytes],
    ) -> Sequence[str]:
        """Push images that are lacking still, and compare them; the names of those.

        Args:
            backup: the name of the backup.
            images: that it lacked.
            blobs: what they need, in the order in which it comes.
            pieces: the content of the blobs, one after the other.

        Raises:
            ClusterError: it failed; the same command goes on.
        """


class BackupWithImages(OpenedBackup, Protocol):
    """A backup whose parts can be read as one stream."""

    def pieces(self, names: Collection[str]) -> Iterator[bytes]:
        """The content of some parts, one after the other, in the order of the backup.

        Raises:
            NotHealthy: the file changed since it was checked.
        """


@dataclass(frozen=True)
class ImagesRequest:
    """What was asked for, by whom.

    Attributes:
        made_of_it: the cluster of the site was claimed for this very backup, or is a rehearsal of
            it: its journal need not know the file.
        rehearses: the site that this one, a lab, is like; empty: it is restored itself.
    """

    site: Site
    run: Run
    dry_run: bool = False
    made_of_it: bool = False
    rehearses: str = ""


@dataclass(frozen=True)
class ImagesSources:
    """What it needs beyond a session: the registry, and the backup."""

    images: Images
    backup: BackupWithImages


@dataclass(frozen=True)
class ImagesResult:
    """How it ended: what was planned, the names of what was pushed, and how long it took."""

    plan: ImagesPlan
    pushed: tuple[str, ...] = ()
    took_seconds: float = 0.0
    done: bool = False


def restore_images(
    request: ImagesRequest,
    session: Session,
    ports: ImagesSources,
    confirm: Callable[[ImagesPlan], bool],
) -> ImagesResult:
    """Refuse, or bring back the images that the registry lacks.

    Raises:
        NotHealthy: the backup has no images, or what it says of them cannot be read; nothing was
            changed.
        NodeUnreachable: the services node does not answer; nothing was changed.
        PreflightFailed: the backup does not fit, or there is no room; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        ClusterError: the push failed; the same command goes on.
    """
    refuse(of_a_registry_elsewhere(request.site))
    saved = saved_images(ports.backup)
    plan = _planned(request, session, ports, saved)
    if request.dry_run:
        return ImagesResult(plan)
    refuse(plan.refusals)
    if not plan.lacking:
        return ImagesResult(plan, done=True)
    require_confirmed(confirm(plan))
    with session.lock:
        now = _planned(request, session, ports, saved)
        refuse(now.refusals)
        shown, seen = replace(plan, age_seconds=0), replace(now, age_seconds=0)
        require_as_shown(shown, seen, "the registry has changed since this was shown")
        began, recorder = session.clock.monotonic(), Recorder(request.run, session)
        age = max(0.0, plan.age_seconds) / 3600
        why = f"{plan.backup}, {age:.1f} hours old: {len(plan.lacking)} images"
        with recorder.run_step(STEP, (plan.node,), (why,)):
            names = [part.name for part in plan.blobs]
            pieces = _told(ports.backup.pieces(names), plan, session)
            pushed = ports.images.load(plan.backup, plan.lacking, plan.blobs, pieces)
    took = session.clock.monotonic() - began
    return ImagesResult(plan, tuple(pushed), took, done=True)


def saved_images(backup: OpenedBackup) -> SavedImages:
    """What a backup says of its images, before anything of it is believed.

    Raises:
        NotHealthy: it has none, or it cannot be read.
    """
    name, content = backup.manifest.about.id, [b""]
    if backup.manifest.part(IMAGE_RECORD) is None:
        raise NotHealthy(
            f"{name}: it has no images: backup create saves them with --images",
            hint=ANOTHER_BACKUP,
        )

    def take(stream: IO[bytes]) -> None:
        content[0] = stream.read(MOST_RECORD_BYTES + 1)

    backup.read(IMAGE_RECORD, take)
    try:
        found = read_images(content[0])
    except Unreadable as error:
        raise NotHealthy(
            f"{name}: {IMAGE_RECORD} cannot be read: {error}", hint=ANOTHER_BACKUP
        ) from error
    strange = [part.name for part in backup.manifest.parts if not is_what_its_name_says(part)]
    if strange:
        raise NotHealthy(
            f"{name}: {strange[0]} has another sha256 than its name", hint=ANOTHER_BACKUP
        )
    return found


def _planned(
    request: ImagesRequest, session: Session, ports: ImagesSources, saved: SavedImages
) -> ImagesPlan:
    backup, now = ports.backup, session.clock.now()
    about = backup.manifest.about
    whole, _ = parted(saved, backup.manifest)
    known = known_backups(session.journal) | restored_backups(session.journal)
    asked = AskedImages(
        known=request.made_of_it or backup.sha256 in known,
        tool_version=request.run.tool_version,
        age_seconds=now - (id_moment(about.id) or now),
        site=request.rehearses or request.site.name,
    )
    view = ports.images.look(wanted_of(whole))
    return plan_images(request.site, backup.manifest, saved, view, asked)


def _told(pieces: Iterator[bytes], plan: ImagesPlan, session: Session) -> Iterator[bytes]:
    """The same, with a word at each tenth where it is much."""
    came = told = 0
    for piece in pieces:
        came += len(piece)
        tenth = 10 * came // plan.size if plan.size >= TOLD_BYTES else 0
        if tenth > told:
            told = tenth
            session.observer.note(
                f"{plan.node}: images: {came / _GB:.1f} of {plan.size / _GB:.1f} GB"
            )
        yield piece
