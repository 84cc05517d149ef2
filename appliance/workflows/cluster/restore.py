"""``cluster restore``: etcd of all control-plane nodes gets what a snapshot has.

The snapshot is a backup's, or is made of the data of the one node that is left. Each act is marked
on its node, so the same command goes on after a kill. Old data is moved aside. What must not be
here: what forbids a restore (:mod:`appliance.model.backup.restore`), or how a node does it (role
``etcd_restore``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, NodeUnreachable, StepNotVerified
from appliance.model.backup.names import SNAPSHOT, id_moment, stamp
from appliance.model.backup.restore import (
    RestoreOptions,
    RestorePlan,
    plan_from_survivor,
    plan_restore,
    was_compared,
)
from appliance.model.backup.restoring.inventory import restore_inventory
from appliance.model.backup.restoring.restore_release import Begun, KnownRelease
from appliance.model.plan.play import Play
from appliance.model.plan.restored_without import ANNOTATION
from appliance.model.plan.steps import CLUSTER_RESTORE
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.journal import Run
from appliance.workflows.cluster.backup import known_backups
from appliance.workflows.cluster.restoring.renewals import Renewals
from appliance.workflows.cluster.upgrading.revive import read_record
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import AGAIN, Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.backup.record import About
    from appliance.model.state.observed import Look
    from appliance.workflows.cluster.restoring.ports import OpenedBackup, Restoring
    from appliance.workflows.session.ports import JournalPort
    from appliance.workflows.session.session import Session

COMMAND: Final = "cluster restore"
STEP: Final = CLUSTER_RESTORE.name
BRING, VERIFY, END = f"{COMMAND}: snapshot", f"{COMMAND}: verify", f"{COMMAND}: clean up"
# A kubelet that has started tells of itself within seconds; a busy node takes longer. One that an
# earlier run started tells again after five minutes; its lease says sooner that it lives.
PATIENCE_SECONDS: Final = 600.0
POLL_SECONDS: Final = 2.0
_RESTORED: Final = re.compile(r": restored, sha256 ([0-9a-f]{64})\Z")


@dataclass(frozen=True)
class RestoreSources:
    """What a restore needs beyond a session.

    Attributes:
        restoring: the control-plane nodes.
        backup: the one that is restored; None with a survivor.
        releases: gives the releases that this tool has, by their names.
    """

    restoring: Restoring
    backup: OpenedBackup | None = None
    releases: Callable[[], Mapping[str, KnownRelease]] = dict


@dataclass(frozen=True)
class RestoreRequest:
    """What was asked for, by whom, with which tool."""

    site: Site
    run: Run
    options: RestoreOptions = field(default_factory=RestoreOptions)
    dry_run: bool = False


@dataclass(frozen=True)
class RestoreResult:
    """How it ended.

    Attributes:
        plan: what was planned.
        away: members of the site that were not reached: their kubelets still have to restart.
        gone: Node objects that are not Ready, or that the site does not have.
        compared: every member compared all of its keys with the backup's, and they are the same.
        took_seconds: of the whole restore.
    """

    plan: RestorePlan
    away: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    compared: bool = False
    took_seconds: float = 0.0
    done: bool = False


def cluster_restore(
    request: RestoreRequest,
    session: Session,
    ports: RestoreSources,
    confirm: Callable[[RestorePlan], bool],
) -> RestoreResult:
    """Refuse, or restore, compare and clean up.

    Raises:
        PreflightFailed: the cluster lives, the file does not fit, or a node cannot be restored;
            nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        NodeUnreachable: a node does not answer any more; nothing was changed.
        PlaybookFailed: an act failed on a node; the same command goes on there.
        ClusterError: a node did not take the snapshot; the same command goes on.
        StepNotVerified: the API does not answer, or a control-plane node is not Ready.
    """
    plan = _planned(request, session, ports)
    if request.dry_run:
        return RestoreResult(plan)
    refuse(plan.refusals)
    require_confirmed(confirm(plan))
    with session.lock:
        now = _planned(request, session, ports)
        refuse(now.refusals)
        shown, seen = replace(plan, key="", age_seconds=0), replace(now, key="", age_seconds=0)
        require_as_shown(shown, seen, "the nodes have changed since this was shown")
        return _Run(request, session, ports, now).carry_out()


def _planned(request: RestoreRequest, session: Session, ports: RestoreSources) -> RestorePlan:
    site, options = request.site, request.options
    views = ports.restoring.look(site.control_plane)
    now = session.clock.now()
    if ports.backup is None:
        return plan_from_survivor(site, views, options, stamp(now))
    manifest = ports.backup.manifest
    found = plan_restore(
        site,
        manifest,
        views,
        options,
        tool_version=request.run.tool_version,
        now=(now, stamp(now)),
        created=id_moment(manifest.about.id) or now,
        begun=_begun(site, manifest.about, session, ports),
    )
    return replace(found, known=ports.backup.sha256 in known_backups(session.journal))


def _begun(site: Site, about: About, session: Session, ports: RestoreSources) -> Begun:
    """The upgrade that is under way; read only where the backup is of another release."""
    if about.release == site.settings.appliance_release:
        return Begun(None, ports.releases() if about.kubernetes else {})
    try:
        mark = read_record(session)
    except NodeUnreachable:
        mark = None
    return Begun(mark, ports.releases())


def restored_backups(journal: JournalPort) -> frozenset[str]:
    """The sha256 of each backup that etcd was restored from, and its API answered.

    Whoever made such a file rules the cluster already, with all that runs in it.
    """
    told = (
        line
        for record in journal.read()
        if (record.command, record.step, record.outcome) == (COMMAND, VERIFY, "verified")
        for line in record.why
    )
    return frozenset(found for line in told for found in _RESTORED.findall(line))


class _Run:
    """One run, after everything that could refuse it."""

    def __init__(
        self, request: RestoreRequest, session: Session, ports: RestoreSources, plan: RestorePlan
    ) -> None:
        self._request, self._session, self._ports, self._plan = request, session, ports, plan
        self._recorder = Recorder(request.run, session)
        self._names = tuple(plan.members)
        self._why = (f"{plan.source}: recovery point {plan.recovery}",)

    def carry_out(self) -> RestoreResult:
        began = self._session.clock.monotonic()
        backup = self._ports.backup
        if backup is not None:
            with self._recorder.run_step(BRING, self._names, self._why):
                self._bring(backup)
        members = [
            node
            for node in self._request.site.cluster_members
            if node.name not in self._plan.rejoin
        ]
        look = self._session.nodes.look(members)
        away = tuple(node.name for node in members if node.name not in look.node_facts)
        watchers = tuple(node.name for node in members if node.name in look.node_facts)
        with self._recorder.run_step(STEP, watchers, self._why):
            self._play(restore_inventory(self._request.site, self._plan, watchers), watchers)
        # Before the restore ends on any node: a run that is killed there leaves this record.
        from_it = (f"{self._plan.source}: restored, sha256 {backup.sha256}",) if backup else ()
        with self._recorder.run_step(VERIFY, watchers, (*self._why, *from_it)):
            gone = self._verify(look, watchers)
            views = self._ports.restoring.look([self._request.site.node(n) for n in self._names])
        with self._recorder.run_step(END, self._names, ("what the restore brought is removed",)):
            ending = restore_inventory(self._request.site, self._plan, (), ends=True)
            self._play(ending, self._names)
        return RestoreResult(
            self._plan,
            away,
            gone,
            compared=was_compared(self._plan, views),
            took_seconds=self._session.clock.monotonic() - began,
            done=True,
        )

    def _bring(self, backup: OpenedBackup) -> None:
        nodes = [self._request.site.node(name) for name in self._names]
        snapshot = (self._plan.size, self._plan.sha256)
        self._ports.restoring.bring(
            nodes, self._plan.key, snapshot, lambda take: backup.read(SNAPSHOT, take)
        )

    def _play(self, inventory: dict[str, object], limit: tuple[str, ...]) -> None:
        def on_task(name: str, task: str, changed: bool | None) -> None:
            self._session.observer.task(STEP, name, task, changed=changed)

        everyone = tuple(dict.fromkeys((*self._names, *limit)))
        self._session.playbooks.play(Play(self._request.run.id, STEP, everyone, inventory), on_task)

    def _mark_left_out(self, cluster: Cluster) -> None:
        """Let every other command know of nodes that may come back with their old data."""
        names = [name for name in self._plan.rejoin if name in cluster.nodes]
        if names:
            self._session.members.annotate(names, ANNOTATION, self._plan.key)

    def _verify(self, look: Look, expected: tuple[str, ...]) -> tuple[str, ...]:
        """Wait until the API answers and every node that was reached is Ready; who is not there."""
        patience = Patience(self._session.clock, PATIENCE_SECONDS)
        facts = {name: look.node_facts[name] for name in expected if name in look.node_facts}
        # The look was before the kubelets started again; both times are of the node's own clock.
        since = {name: int(one.epoch or 0) for name, one in facts.items()}
        renewals = Renewals()
        while True:
            cluster = self._session.cluster.read(facts)
            since |= dict.fromkeys(self._living(cluster, expected, since, renewals), 0)
            over = patience.is_over()
            # A worker that stays away for another reason must not keep the restore from its end.
            needed = self._names if over else expected
            fault = _fault(cluster, needed, since)
            if not fault:
                assert isinstance(cluster, Cluster)  # noqa: S101  (else there is a fault)
                self._mark_left_out(cluster)
                known = {*expected, *self._plan.rejoin}
                gone = {name for name in cluster.nodes if name not in known}
                return tuple(sorted(gone.union(_late(cluster, expected, since))))
            if over:
                raise StepNotVerified(
                    f"etcd was restored, but {fault}",
                    hint=f"see what is wrong: appliance status; then {AGAIN}",
                )
            self._session.observer.verifying(VERIFY, fault)
            self._session.clock.sleep(POLL_SECONDS)

    def _living(
        self,
        cluster: object,
        expected: tuple[str, ...],
        since: Mapping[str, float],
        renewals: Renewals,
    ) -> frozenset[str]:
        """Whose kubelet lives, by its lease; asked where nothing but the snapshot says so yet."""
        if isinstance(cluster, Cluster):
            late = _late(cluster, expected, since)
            if any(name in cluster.nodes and cluster.nodes[name].ready for name in late):
                # It only says sooner what the next heartbeat says: without it, that is waited for.
                with suppress(ApplianceError):
                    renewals.saw(expected, self._session.read_workloads().heartbeats)
        return renewals.alive


def _fault(cluster: object, expected: tuple[str, ...], since: Mapping[str, float]) -> str:
    if not isinstance(cluster, Cluster):
        return "no API server answers"
    late = _late(cluster, expected, since)
    unready = [name for name in late if name not in cluster.nodes or not cluster.nodes[name].ready]
    if unready:
        return f"not Ready: {', '.join(unready)}"
    return f"Ready by the snapshot alone, not heard of since: {', '.join(late)}" if late else ""


def _late(
    cluster: Cluster, expected: tuple[str, ...], since: Mapping[str, float]
) -> tuple[str, ...]:
    """Nodes that are not Ready, or Ready only by what the snapshot says of them."""
    found = {name: cluster.nodes.get(name) for name in expected}
    return tuple(
        name
        for name, one in found.items()
        if one is None or not one.ready or (one.heard or 0) < since.get(name, 0)
    )
