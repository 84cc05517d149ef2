"""``cluster restore --only database``: Run:ai's databases get what a backup has, and nothing else.

Each dump is restored beside its database and compared while Run:ai runs. Then what writes stops,
all databases are exchanged at once, and what was stopped starts again. The same command goes on
after a kill. What must not be here: what forbids it
(:mod:`appliance.model.backup.restoring.databases`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final

from appliance.errors import ClusterError, NotHealthy, StepNotVerified
from appliance.model.backup.names import ANOTHER_BACKUP, COUNTS, RUNAI_RELEASES, id_moment
from appliance.model.backup.restoring.database_view import (
    MOST_COUNTS_BYTES,
    MOST_VERSIONS_BYTES,
    Connection,
    Dump,
    Kept,
    SavedState,
    is_name,
    read_saved,
)
from appliance.model.backup.restoring.databases import (
    Asked,
    DatabasePlan,
    plan_databases,
    wanted_of,
)
from appliance.model.documents.strict_json import Unreadable
from appliance.model.state.journal import Run
from appliance.workflows.cluster.backup import known_backups
from appliance.workflows.cluster.restore import restored_backups
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.workflows.cluster.restoring.database_ports import Databases
    from appliance.workflows.cluster.restoring.ports import OpenedBackup
    from appliance.workflows.session.session import Session

COMMAND: Final = "cluster restore"
SAVE, LOAD = f"{COMMAND}: dump of now", f"{COMMAND}: databases"
SWAP, VERIFY = f"{COMMAND}: exchange", f"{COMMAND}: verify"


@dataclass(frozen=True)
class DatabaseRequest:
    """What was asked for, by whom, with which tool."""

    site: Site
    run: Run
    dry_run: bool = False


@dataclass(frozen=True)
class DatabaseSources:
    """What it needs beyond a session: the databases, and the backup."""

    databases: Databases
    backup: OpenedBackup


@dataclass(frozen=True)
class DatabaseResult:
    """How it ended.

    Attributes:
        plan: what was planned.
        dumps: paths of the dumps of the state before, on the node.
        kept: what is on the server at the end.
        connection: what was seen of Run:ai afterwards.
        away_seconds: how long Run:ai was stopped; 0: an earlier run had stopped it.
        took_seconds: of this run.
    """

    plan: DatabasePlan
    dumps: tuple[str, ...] = ()
    kept: Kept = field(default_factory=Kept)
    connection: Connection = field(default_factory=Connection)
    away_seconds: float = 0.0
    took_seconds: float = 0.0
    done: bool = False


def restore_databases(
    request: DatabaseRequest,
    session: Session,
    ports: DatabaseSources,
    confirm: Callable[[DatabasePlan], bool],
) -> DatabaseResult:
    """Refuse, or restore Run:ai's databases, and see that it works.

    Raises:
        NotHealthy: what the backup says of its databases cannot be read; nothing was changed.
        NodeUnreachable: the node does not answer; nothing was changed.
        PreflightFailed: the backup or the backend does not fit; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        ClusterError: an act failed on the node; the same command goes on.
        StepNotVerified: nobody can log in, or the cluster is not connected; likewise.
    """
    saved = _saved(ports.backup)
    plan = _planned(request, session, ports, saved)
    if request.dry_run:
        return DatabaseResult(plan)
    refuse(plan.refusals)
    require_confirmed(confirm(plan))
    with session.lock:
        now = _planned(request, session, ports, saved)
        refuse(now.refusals)
        require_as_shown(_outline(plan), _outline(now), "the state of Run:ai changed")
        return _Run(request, session, ports, now).carry_out()


def _saved(backup: OpenedBackup) -> SavedState:
    """What the backup says of its databases, before anything of it is believed.

    Raises:
        NotHealthy: it cannot be read.
    """
    if backup.manifest.part(COUNTS) is None:
        return SavedState()
    try:
        counts = _read(backup, COUNTS, MOST_COUNTS_BYTES)
        known = backup.manifest.part(RUNAI_RELEASES) is not None
        releases = _read(backup, RUNAI_RELEASES, MOST_VERSIONS_BYTES) if known else None
        return read_saved(counts, releases)
    except Unreadable as error:
        raise NotHealthy(
            f"{backup.manifest.about.id}: what it says of Run:ai's databases cannot be read: "
            f"{error}",
            hint=ANOTHER_BACKUP,
        ) from error


def _read(backup: OpenedBackup, name: str, most: int) -> bytes:
    found: list[bytes] = []
    backup.read(name, lambda stream: found.append(stream.read(most + 1)))
    return found[0]


def _planned(
    request: DatabaseRequest, session: Session, ports: DatabaseSources, saved: SavedState
) -> DatabasePlan:
    manifest, now = ports.backup.manifest, session.clock.now()
    parts = {name: manifest.part(one.part) for name, one in wanted_of(saved).items()}
    sums = {n: part.sha256 for n, part in parts.items() if part is not None and is_name(n)}
    databases = ports.databases
    view = databases.look(manifest.about.id, sums)
    begun = view.record
    if begun is not None and begun.is_open_of(ports.backup.sha256):
        # What an interrupted run made has that run's word in its names.
        view = databases.look(begun.key, sums)
    asked = Asked(
        known=ports.backup.sha256
        in known_backups(session.journal) | restored_backups(session.journal),
        sha256=ports.backup.sha256,
        tool_version=request.run.tool_version,
        at=now,
        created=id_moment(manifest.about.id) or now,
    )
    return plan_databases(request.site, manifest, saved, view, asked)


def _outline(plan: DatabasePlan) -> tuple[object, ...]:
    """What a person agreed to; rows go on changing until Run:ai stops."""
    return (plan.resumes, plan.names, sorted(plan.stops or {}), plan.gone)


class _Run:
    """One run, after everything that could refuse it."""

    def __init__(
        self, request: DatabaseRequest, session: Session, ports: DatabaseSources, plan: DatabasePlan
    ) -> None:
        self._session, self._ports, self._plan = session, ports, plan
        self._recorder = Recorder(request.run, session)
        self._why = (f"{plan.backup}: recovery point {plan.recovery}",)

    def carry_out(self) -> DatabaseResult:
        clock, plan, databases = self._session.clock, self._plan, self._ports.databases
        began = clock.monotonic()
        with self._recorder.run_step(SAVE, (plan.node,), self._why):
            backup = (plan.backup, self._ports.backup.sha256)
            dumps = databases.save(plan.key, plan.names, backup)
        with self._recorder.run_step(LOAD, (plan.node,), self._why):
            self._load()
        with self._recorder.run_step(SWAP, (plan.node,), self._why):
            away = databases.swap(plan.key, plan.names)
        with self._recorder.run_step(VERIFY, (plan.node,), self._why):
            connection = self._verified()
            kept = databases.end(plan.key)
        return DatabaseResult(
            plan,
            tuple(dumps),
            kept,
            connection,
            away_seconds=away,
            took_seconds=clock.monotonic() - began,
            done=True,
        )

    def _load(self) -> None:
        backup, databases, plan = self._ports.backup, self._ports.databases, self._plan
        for one in plan.databases:
            part = backup.manifest.part(one.part)
            if one.whole or one.swapped or part is None:
                continue
            self._session.observer.note(f"{plan.node}: restoring {one.name} beside the old one")
            dump = Dump(one.name, part, one.saved, same_form=plan.same_form)

            def take(content: IO[bytes], dump: Dump = dump) -> None:
                databases.load(plan.key, dump, content)

            backup.read(one.part, take)

    def _verified(self) -> Connection:
        try:
            return self._ports.databases.check(self._plan.key)
        except ClusterError as error:
            raise StepNotVerified(
                f"the databases were restored, but {error.message}",
                hint="the passwords are those of the time of the backup; correct the cause, then "
                "run the same command again",
                details=error.details,
            ) from error
