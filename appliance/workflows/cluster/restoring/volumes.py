"""``cluster restore --only volumes``: volumes get the data that a backup has, and nothing else.

Each archive becomes a new folder beside the present one, and is compared; then it takes the name.
What was there stays beside it. The same command goes on after a kill. What must not be here: what
forbids it (:mod:`appliance.model.backup.volumes.restore`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final

from appliance.errors import ApplianceError, ClusterError, NotHealthy
from appliance.model.backup.names import ANOTHER_BACKUP, id_moment
from appliance.model.backup.volumes.record import (
    MOST_RECORD_BYTES,
    VolumeRecord,
    read_record,
    record_parts,
)
from appliance.model.backup.volumes.restore import (
    AskedFor,
    Target,
    VolumeRestorePlan,
    faults_of,
    new_key,
    seen_by,
    stops_of,
    targets_of,
)
from appliance.model.documents.strict_json import Unreadable
from appliance.model.site.shared_storage import export_of
from appliance.model.state.journal import Run
from appliance.model.state.plan import Refusal
from appliance.workflows.cluster.backup import known_backups
from appliance.workflows.cluster.restore import restored_backups
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.backup.record import Part
    from appliance.model.site.settings import Site
    from appliance.workflows.cluster.restoring.ports import OpenedBackup
    from appliance.workflows.cluster.restoring.volume_ports import Volumes
    from appliance.workflows.session.session import Session

COMMAND: Final = "cluster restore"
LOAD, SWAP = f"{COMMAND}: volumes", f"{COMMAND}: exchange of volumes"
# A client of NFS may keep a folder's names for so long: acdirmax, nfs(5).
SETTLE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class VolumeRequest:
    """What was asked for, by whom; no name: every volume that the backup has."""

    site: Site
    run: Run
    names: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True)
class VolumeRestoreSources:
    """What it needs beyond a session: the volumes, and the backup."""

    volumes: Volumes
    backup: OpenedBackup


@dataclass(frozen=True)
class VolumeResult:
    """How it ended.

    Attributes:
        plan: what was planned.
        kept: claim -> the name, in the export, of the folder that was there.
        early: what began before it was done and may have the old folder, and what to do.
        took_seconds: of this run.
    """

    plan: VolumeRestorePlan
    kept: Mapping[str, str] = field(default_factory=dict)
    took_seconds: float = 0.0
    done: bool = False
    early: tuple[str, ...] = ()


def restore_volumes(
    request: VolumeRequest,
    session: Session,
    ports: VolumeRestoreSources,
    confirm: Callable[[VolumeRestorePlan], bool],
) -> VolumeResult:
    """Refuse, or restore the data of volumes.

    Raises:
        NotHealthy: what the backup says of its volumes cannot be read; nothing was changed.
        NodeUnreachable: the API or the node does not answer; nothing was changed.
        PreflightFailed: the backup does not fit, or pods use a claim; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        ClusterError: an act failed, or pods use a claim again; the same command goes on.
    """
    records = _records(ports.backup)
    plan = _planned(request, session, ports, records)
    if request.dry_run:
        return VolumeResult(plan)
    refuse(plan.refusals)
    require_confirmed(confirm(plan))
    with session.lock:
        now = _planned(request, session, ports, records)
        refuse(now.refusals)
        require_as_shown(_outline(plan), _outline(now), "the volumes changed")
        return _Run(request, session, ports, now).carry_out()


def _records(backup: OpenedBackup) -> tuple[VolumeRecord, ...]:
    """What the backup says of its volumes, before anything of it is believed.

    Raises:
        NotHealthy: it cannot be read.
    """
    found = []
    for part in record_parts(backup.manifest):
        content: list[bytes] = []

        def take(stream: IO[bytes], content: list[bytes] = content) -> None:
            content.append(stream.read(MOST_RECORD_BYTES + 1))

        backup.read(part, take)
        try:
            found.append(read_record(content[0], part))
        except Unreadable as error:
            raise NotHealthy(
                f"{backup.manifest.about.id}: {part} cannot be read: {error}",
                hint=ANOTHER_BACKUP,
            ) from error
    return tuple(found)


def _planned(
    request: VolumeRequest,
    session: Session,
    ports: VolumeRestoreSources,
    records: Sequence[VolumeRecord],
) -> VolumeRestorePlan:
    site, backup, now = request.site, ports.backup, session.clock.now()
    about = backup.manifest.about
    targets, faults = targets_of(site, records, ports.volumes.claims(), request.names)
    key, view = new_key(about.id, now), None
    if targets:
        view = ports.volumes.look(key, targets)
        begun = view.record
        if begun is not None and begun.is_open_of(backup.sha256):
            # What an interrupted run made has that run's moment in its names.
            key = begun.key
            view = ports.volumes.look(key, targets)
        targets = seen_by(targets, view)
    asked = AskedFor(
        names=request.names,
        known=backup.sha256 in known_backups(session.journal) | restored_backups(session.journal),
        sha256=backup.sha256,
        tool_version=request.run.tool_version,
        at=now,
        created=id_moment(about.id) or now,
    )
    export = export_of(site)
    return VolumeRestorePlan(
        key=key,
        node=export.node.name if export is not None and export.node is not None else "",
        backup=about.id,
        point=about.created,
        age_seconds=now - asked.created,
        targets=targets,
        known=asked.known,
        resumes=view is not None and view.record is not None and view.record.key == key,
        kept=view.kept if view is not None else (),
        refusals=(
            *faults,
            *_lost_parts(backup, targets),
            *faults_of(site, backup.manifest, targets, view, asked),
        ),
    )


def _lost_parts(backup: OpenedBackup, targets: Sequence[Target]) -> tuple[Refusal, ...]:
    return tuple(
        Refusal(
            one.claim,
            "volumes",
            "no archive in the backup: it broke off",
            one.record.archive,
            ANOTHER_BACKUP,
        )
        for one in targets
        if backup.manifest.part(one.record.archive) is None
    )


def _outline(plan: VolumeRestorePlan) -> tuple[object, ...]:
    """What a person agreed to; the moment in a new key goes on."""
    return (plan.resumes, [(one.claim, one.folder, one.there) for one in plan.targets])


class _Run:
    """One run, after everything that could refuse it."""

    def __init__(
        self,
        request: VolumeRequest,
        session: Session,
        ports: VolumeRestoreSources,
        plan: VolumeRestorePlan,
    ) -> None:
        self._site = request.site
        self._session, self._ports, self._plan = session, ports, plan
        self._recorder = Recorder(request.run, session)
        claims = ", ".join(one.claim for one in plan.targets)
        self._why = (f"{plan.backup}: recovery point {plan.recovery}: {claims}",)

    def carry_out(self) -> VolumeResult:
        clock, plan, volumes = self._session.clock, self._plan, self._ports.volumes
        began = clock.monotonic()
        with self._recorder.run_step(LOAD, (plan.node,), self._why):
            self._load()
        with self._recorder.run_step(SWAP, (plan.node,), self._why):
            self._require_unused()
            volumes.swap(plan.key, plan.targets)
            self._session.observer.note(
                f"waiting {SETTLE_SECONDS:.0f} s: until then a node may know the old folders"
            )
            clock.sleep(SETTLE_SECONDS)
            kept = volumes.end(plan.key, plan.targets)
        took = clock.monotonic() - began
        return VolumeResult(plan, kept, took, done=True, early=self._early())

    def _load(self) -> None:
        backup, volumes, plan = self._ports.backup, self._ports.volumes, self._plan
        named = (plan.backup, backup.sha256)
        for one in plan.targets:
            part = backup.manifest.part(one.record.archive)
            if one.whole or one.swapped or part is None:
                continue
            self._session.observer.note(f"{plan.node}: restoring {one.claim} beside the old folder")
            what = (one.record, part)

            def take(content: IO[bytes], what: tuple[VolumeRecord, Part] = what) -> None:
                volumes.load(plan.key, plan.targets, what, named, content)

            backup.read(part.name, take)

    def _early(self) -> tuple[str, ...]:
        """Pods that began between the last look and the end."""
        due = {one.claim for one in self._plan.targets if not one.swapped}
        try:
            claims = self._ports.volumes.claims() if due else ()
        except ApplianceError as error:
            return (f"it is not known which pods began meanwhile: {error.message}",)
        return tuple(
            f"{one.claim}: pods began before the minute was over, and may have the old folder: "
            f"{', '.join(user.pod for user in one.users[:5])}; stop them, and start them again: "
            + "; ".join(stops_of(one.claim, one.users))
            for one in claims
            if one.claim in due and one.users
        )

    def _require_unused(self) -> None:
        """A pod that began meanwhile would write on in the folder that is put aside.

        A claim that was made again meanwhile has another folder, which nobody would exchange.
        """
        due = {one.claim for one in self._plan.targets if not one.swapped}
        claims, records = self._ports.volumes.claims(), [one.record for one in self._plan.targets]
        now, _ = targets_of(self._site, records, claims, ())
        folders = {one.claim: one.folder for one in now}
        for one in self._plan.targets:
            if folders.get(one.claim) != one.folder:
                raise ClusterError(
                    f"{one.claim} is not in the folder {one.folder} any more: it was deleted or "
                    "made again meanwhile; nothing was exchanged",
                    hint="see it: kubectl get pvc -A; then run the same command again",
                )
        for claim in claims:
            if claim.claim in due and claim.users:
                pods = ", ".join(user.pod for user in claim.users[:5])
                raise ClusterError(
                    f"{claim.claim}: pods use it again: {pods}; its data is as before",
                    hint="stop them, then run the same command again: "
                    + "; ".join(stops_of(claim.claim, claim.users)),
                )
