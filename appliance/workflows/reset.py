"""``reset``: a whole appliance back to bare machines.

Workers first, then control planes, last the node that serves the others. What is still to do
follows from what each machine says it has; a document on the control planes tells whose cluster it
was, once no machine shows that any more. Documents and lock go last, after the lock was given back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import NodeUnreachable, Refused, StepNotVerified
from appliance.model.node.drain import DrainView
from appliance.model.node.left_behind import left_behind
from appliance.model.plan.play import Play
from appliance.model.plan.reset.mark import DOCUMENT, ResetMark, parse_reset
from appliance.model.plan.reset.plan import Known, NodeReset, ResetPlan, plan_reset
from appliance.model.plan.reset.remains import Remains
from appliance.model.site.groups import majority
from appliance.model.site.shared_storage import export_of
from appliance.model.site.ssh import connection_vars
from appliance.model.site.vault_ref import CA_CERTIFICATE
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.nodes.cri_socket import cri_socket
from appliance.model.state.nodes.kubeadm_state import ca_of
from appliance.model.state.nodes.maintenance import timestamp
from appliance.workflows.node.baselines import read_passports
from appliance.workflows.node.power import Unlocked
from appliance.workflows.node.remove import reset_inventory
from appliance.workflows.session.confirmation import (
    differing,
    is_late,
    require_confirmed,
    require_same_plan,
)
from appliance.workflows.session.recording import AGAIN, Recorder
from appliance.workflows.session.survey import look_patiently, observe, refuse, require_evidence

if TYPE_CHECKING:
    from appliance.model.bundle.release.release import Runtime
    from appliance.model.node.baseline import Passport
    from appliance.model.site.settings import Site
    from appliance.model.state.journal import Run
    from appliance.model.state.observed import Observed
    from appliance.workflows.session.session import Session

COMMAND: Final = "reset"
NODE_RESET: Final = "node_reset"
NODE_BARE: Final = "node_bare"
BACKUP: Final = "cluster backup create"


@dataclass(frozen=True)
class ResetRequest:
    """What was asked for.

    Attributes:
        site: all that the inventory names.
        runtimes: what runs the containers of nodes: of the site's release, then of other ones.
        confirmed_site: the site's name as it was typed; empty: it is asked.
        without: nodes that do not answer, and are left as they are.
        lose_data: data that no install makes again go too.
        cluster_ca: sha256 of the cluster's CA by the kubeconfig on this machine, or None.
        site_ca: gives sha256 of the site's CA as the vault has it; None: it stays closed.
    """

    site: Site
    run: Run
    runtimes: tuple[Runtime, ...]
    confirmed_site: str = ""
    without: frozenset[str] = frozenset()
    lose_data: bool = False
    cluster_ca: str | None = None
    site_ca: Callable[[], str | None] = lambda: None
    dry_run: bool = False


@dataclass(frozen=True)
class ResetResult:
    """How it ended: the forecast, and whether it was carried out."""

    plan: ResetPlan
    lines: tuple[str, ...]
    done: bool = False


def reset(
    request: ResetRequest, session: Session, confirm: Callable[[Sequence[str]], bool]
) -> ResetResult:
    """Look, refuse or reset, and verify.

    Raises:
        Refused: another site's name was typed, it was not confirmed, or another command is at work;
            nothing was changed.
        PreflightFailed: a machine does not answer, or is not proved to be this site's; nothing was
            changed.
        NodeUnreachable: a node is too busy to tell what it is; nothing was changed.
        LeaseLost: another command took the site over.
        PlaybookFailed: a machine could not be cleaned; the same command continues.
        StepNotVerified: a machine was cleaned, and still has something.
    """
    _require_names(request)
    run = _Reset(request, session)
    plan, lines, observed_at = run.plan(), run.lines(), session.clock.monotonic()
    if request.dry_run or plan.is_empty:
        return ResetResult(plan, lines)
    require_confirmed(confirm(lines))
    if not run.is_lockable():
        # The lock is on control planes that do not answer, and are left.
        session = replace(session, lock=Unlocked())
        run.give(session)
    with session.lock:
        if is_late(session.clock, observed_at):
            now = _Reset(request, session)
            now.plan()
            require_same_plan(request.run, differing(run.outline(), now.outline()))
            run = now
        run.carry_out()
    # With the lock goes the folder that holds it.
    _Acts(request, session).forget(run.last())
    return ResetResult(plan, lines, done=True)


def _require_names(request: ResetRequest) -> None:
    """Refuse another site's name, and nodes that the inventory does not have."""
    site = request.site
    if request.confirmed_site and request.confirmed_site != site.name:
        raise Refused(
            f"this is the site {site.name}, not {request.confirmed_site}: nothing was changed",
            hint=f"appliance site show --site {site.directory}",
        )
    strange = sorted(request.without - {node.name for node in site.nodes})
    if strange:
        raise Refused(
            f"{strange[0]}: the inventory has no node of this name",
            hint=f"appliance site show --site {site.directory}",
        )


class _Reset:
    """One look at everything, and the acts that follow."""

    def __init__(self, request: ResetRequest, session: Session) -> None:
        self._request, self._session = request, session
        self._site = request.site

    def plan(self) -> ResetPlan:
        """What is to be done.

        Raises:
            PreflightFailed: something forbids it.
            NodeUnreachable: a node is too busy to tell what it is.
        """
        request, session = self._request, self._session
        self._observed, _ = observe(self._site, session.nodes, session.cluster)
        require_evidence(self._observed.node_facts)
        passports, mark = self._documents()
        mark = None if mark is not None and self._is_of_an_earlier(mark) else mark
        answers = session.remains.read(
            [node for node in self._site.nodes if node.name in self._observed.node_facts]
        )
        known = Known(
            self._cluster_ca(mark),
            request.site_ca(),
            passports,
            {name: one for name, one in answers.items() if isinstance(one, Remains)},
            {name: one for name, one in answers.items() if isinstance(one, str)},
        )
        self._mark = mark
        self._plan = plan_reset(
            self._site,
            self._observed,
            known,
            without=request.without,
            lose_data=request.lose_data,
        )
        refuse(self._plan.refusals)
        return self._plan

    def _cluster_ca(self, mark: ResetMark | None) -> str | None:
        """Whose cluster it is: by the mark, else by this machine's kubeconfig."""
        return (mark.ca if mark else None) or self._request.cluster_ca

    def _is_of_an_earlier(self, mark: ResetMark) -> bool:
        """Whether the mark is that of a cluster before this one.

        An install after a reset that was given up leaves the mark where it is. Then every control
        plane shows the new CA, or those that answer show that of this machine's kubeconfig.
        """
        seen = [self._observed.node_facts.get(node.name) for node in self._site.control_plane]
        shown = {ca_of(one) for one in seen if one is not None}
        known = shown - {None}
        if not known or mark.ca in known:
            return False
        return known == {self._request.cluster_ca} or (None not in seen and len(shown) == 1)

    def _documents(self) -> tuple[dict[str, Passport], ResetMark | None]:
        """Passports, and the mark of a reset that began; nothing where no control plane answers."""
        try:
            mark = parse_reset(self._session.archive.get(DOCUMENT))
            return read_passports(self._session.archive), mark
        except NodeUnreachable:
            return {}, None

    def outline(self) -> tuple[str, ...]:
        """What the operator agreed to."""
        return self._plan.lines()

    def lines(self) -> tuple[str, ...]:
        """The forecast."""
        begun = (f"an earlier run began: by {self._mark.by} on {self._mark.host}, "
                 f"{self._mark.since}",) if self._mark else ()  # fmt: skip
        return (*begun, *self._of_the_cluster(), *self._of_backups(), *self._plan.lines())

    def _of_the_cluster(self) -> tuple[str, ...]:
        cluster = self._observed.cluster
        if isinstance(cluster, Unreachable):
            return (f"what runs is not known: {cluster.reason}",)
        if not isinstance(cluster, Cluster):
            return ()
        lost, names = self._request.lose_data, [n for n in cluster.nodes if self._is_known(n)]
        try:
            views = self._session.drain.views(names)
        except NodeUnreachable as error:  # what a killed run left at work may stop the API
            return (f"what runs is not known: {error.message}",)
        lines = [f"{n}: pods that end: {len(v.pods)}{_first(v)}" for n, v in views.items()]
        for name in sorted(set(cluster.nodes) - set(names)):
            lines.append(f"{name}: a member that the inventory does not have: IT IS LEFT as it is")
        for name, volume in cluster.storage.volumes.items():
            fate = "GO" if lost and self._serves() else "stay"
            lines.append(f"volume {name} ends; its data {fate}: {volume.source}")
        if self._site.settings.runai is not None:
            gone = lost and self._serves()
            fate = "IS DELETED with the shared storage" if gone else "stays as files"
            lines.append(f"Run:ai's projects, users and history end; its database {fate}")
        return tuple(lines)

    def _serves(self) -> bool:
        """Whether a node of the site serves the shared storage, and not a filer of others."""
        export = export_of(self._site)
        return export is not None and export.node is not None

    def _is_known(self, name: str) -> bool:
        return name in {node.name for node in self._site.nodes}

    def _of_backups(self) -> tuple[str, ...]:
        """When the last backup was made, by the journal and by what lies on the nodes."""
        made = [one for one in self._session.journal.read() if one.command == BACKUP]
        made = [one for one in made if one.outcome == "verified"]
        found = [f"the last backup by this machine's journal: {made[-1].started}"] if made else []
        newest = [
            (one.remains.newest_backup[1], one.node, one.remains.newest_backup[0])
            for one in self._plan.nodes
            if one.remains.newest_backup
        ]
        if newest:
            at, node, path = max(newest)
            found.append(f"the newest snapshot or backup on the nodes: {node}:{path}, "
                         f"{timestamp(at)}")  # fmt: skip
        if not found and self._plan.work:
            found = ["NO BACKUP is known: neither in the journal nor on the nodes"]
        return tuple(found)

    def give(self, session: Session) -> None:
        """Go on with these ports."""
        self._session = session

    def last(self) -> tuple[NodeReset, ...]:
        """The control planes, on which documents and lock of the site are, and were written."""
        control_plane = {node.name for node in self._site.control_plane}
        nodes = self._plan.nodes
        return tuple(n for n in nodes if n.last or (n.node in control_plane and not n.is_empty))

    def is_lockable(self) -> bool:
        """Whether the control planes that hold the lock are not among those that are left out."""
        names = [node.name for node in self._site.control_plane]
        return sum(name not in self._plan.left for name in names) >= majority(len(names))

    def carry_out(self) -> None:
        """Every node in its order; then this machine's state says that there is no cluster.

        Raises:
            PlaybookFailed, StepNotVerified, LeaseLost: as :func:`reset` does.
        """
        session, recorder = self._session, Recorder(self._request.run, self._session)
        recorder.begin()
        if self.is_lockable():
            self._write_down()
        acts = _Acts(self._request, session, self._observed)
        for one in self._plan.work:
            if one.reset:
                with recorder.on_node(NODE_RESET, one.node, "no cluster data stays on the machine"):
                    acts.reset(one)
            with recorder.on_node(NODE_BARE, one.node, "what the product put there is taken away"):
                acts.bare(one)
        names = [one.node for one in self._plan.nodes]
        with recorder.run_step(COMMAND, names, ["the appliance is taken apart"]):
            session.forget_cluster()

    def _write_down(self) -> None:
        """Whose cluster it is, before the first machine stops to show it."""
        run, now = self._request.run, self._session.clock.now()
        mark = self._mark
        if mark is None or (self._plan.ca and mark.ca != self._plan.ca):
            mark = ResetMark(run.id, run.operator, run.host, timestamp(now), self._plan.ca)
        for missed in self._session.archive.put(DOCUMENT, mark.as_text()):
            self._session.observer.note(f"the reset is not noted on every control plane: {missed}")


def _first(view: DrainView) -> str:
    names = [f"{pod.namespace}/{pod.name}" for pod in view.pods if pod.namespace != "kube-system"]
    return f" ({', '.join(names[:4])}{', …' if names[4:] else ''})" if names else ""


class _Acts:
    """What is done to single machines, and what is seen afterwards."""

    def __init__(
        self, request: ResetRequest, session: Session, observed: Observed | None = None
    ) -> None:
        self._request, self._session, self._observed = request, session, observed
        self._site = request.site

    def reset(self, one: NodeReset) -> None:
        """Take its membership from a machine.

        Raises:
            StepNotVerified: something of it is still there.
        """
        assert self._observed is not None  # noqa: S101  (given where members are reset)
        assert one.reset is not None  # noqa: S101  (asked before)
        node, seen = self._site.node(one.node), self._observed
        state = seen.cluster
        member = state.nodes.get(one.node) if isinstance(state, Cluster) else None
        socket = cri_socket(member, seen.node_facts.get(one.node), self._request.runtimes)
        inventory = reset_inventory(self._site, node, one.reset, socket)
        kept = {"node_reset_snapshots_kept": not one.loses_data}
        inventory["all"]["vars"] |= kept  # type: ignore[index]
        self._play(NODE_RESET, one.node, inventory)
        look = look_patiently(self._session.nodes, [node])
        facts = look.node_facts.get(one.node)
        left = left_behind(facts) if facts else (look.faults[0].reason,)
        self._require_none(one.node, left)

    def bare(self, one: NodeReset) -> None:
        """Take the product from a machine.

        Raises:
            StepNotVerified: something of it is still there.
        """
        self._play(NODE_BARE, one.node, self._bare_inventory(one, forget=False))
        now = self._remains(one.node)
        data = [path for path, _ in now.data] if one.loses_data else []
        self._require_none(one.node, [f"it still has {name}" for name in (*now.goes, *data)])

    def forget(self, last: Sequence[NodeReset]) -> None:
        """Take documents and lock of the site from machines that are bare beside them.

        Raises:
            StepNotVerified: something is still there.
        """
        for one in last:
            self._play(NODE_BARE, one.node, self._bare_inventory(one, forget=True))
        for one in last:
            now = self._remains(one.node)
            self._require_none(one.node, [f"it still has {name}" for name in now.last])

    def _bare_inventory(self, one: NodeReset, *, forget: bool) -> dict[str, object]:
        export, node = export_of(self._site), self._site.node(one.node)
        variables = {
            **connection_vars(self._site),
            "node_bare_machine_id": one.machine_id,
            "node_bare_ca_certificate": CA_CERTIFICATE,
            "node_bare_export": export.path if export and export.node == node else "",
            "node_bare_data_lost": one.loses_data,
            "node_bare_site_forgotten": forget,
        }
        return {"all": {"vars": variables, "hosts": {node.name: {"ansible_host": node.ip}}}}

    def _remains(self, name: str) -> Remains:
        found = self._session.remains.read([self._site.node(name)])[name]
        if isinstance(found, str):
            raise StepNotVerified(f"{name}: was cleaned, but {found}", hint=AGAIN)
        return found

    def _require_none(self, name: str, left: Sequence[str]) -> None:
        if left:
            raise StepNotVerified(
                f"{name}: was cleaned, but {left[0]}", hint=AGAIN, details=left[1:]
            )

    def _play(self, playbook: str, name: str, inventory: dict[str, object]) -> None:
        def on_task(node: str, task: str, changed: bool | None) -> None:
            self._session.observer.task(playbook, node, task, changed=changed)

        play = Play(self._request.run.id, playbook, (name,), inventory)
        self._session.playbooks.play(play, on_task)
