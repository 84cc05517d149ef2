"""Remove a node from the cluster, reachable or not, and clean it up.

A second run goes on where one was killed: the plan follows from what is observed and from the
document that says that the node is removed. What must not be here: what forbids it (that is
:mod:`appliance.model.node.removal`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable, Refused, StepNotVerified
from appliance.model.node.accepted import accepted_of
from appliance.model.node.answering import AnsweringMachine, answering
from appliance.model.node.bmc.fence import Fence
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.etcd_quorum import EtcdMember
from appliance.model.node.left_behind import left_behind
from appliance.model.node.membership import MemberRecord, Removal, removed
from appliance.model.node.removal import (
    Answers,
    RemovalPlan,
    RemovalRequest,
    Reset,
    is_nameless,
    is_same_machine,
    plan_removal,
)
from appliance.model.plan.play import Play
from appliance.model.plan.under_upgrade import under_way
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import connection_vars
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.journal import Run
from appliance.model.state.nodes.cri_socket import cri_socket
from appliance.model.state.nodes.node_metadata import merged, metadata_of
from appliance.model.state.plan import Refusal
from appliance.workflows.cluster.backups.freshness import ask_where_data_is
from appliance.workflows.node.baselines import read_passport
from appliance.workflows.node.maintenance.eviction import losses
from appliance.workflows.node.maintenance.fencing import (
    cut_power,
    look_at_fence,
    require_not_ready,
)
from appliance.workflows.session.confirmation import (
    differing,
    is_late,
    require_confirmed,
    require_same_plan,
)
from appliance.workflows.session.member_records import read_all_records
from appliance.workflows.session.recording import Evidence, Recorder
from appliance.workflows.session.survey import look_patiently, observe, refuse, require_evidence

if TYPE_CHECKING:
    from appliance.model.bundle.release.release import Runtime
    from appliance.model.state.observed import Observed
    from appliance.workflows.session.session import Session

COMMAND = "node remove"
RESET = "node_reset"


@dataclass(frozen=True)
class NodeRemoveRequest:
    """What was asked for, by whom, with which tool.

    Attributes:
        site: all that the inventory names.
        runtimes: what runs the containers of nodes: of the site's release, then of other ones.
        without_backup: begin although the newest backup is not fresh.
    """

    site: Site
    removal: RemovalRequest
    run: Run
    runtimes: tuple[Runtime, ...]
    dry_run: bool = False
    without_backup: bool = False


@dataclass(frozen=True)
class RemoveResult:
    """How it ended: the plan, what the pods' forecast said, and whether it was carried out.

    Attributes:
        off: what shows that the node is off, where its BMC cut its power; else empty.
    """

    plan: RemovalPlan
    forecast: tuple[str, ...] = ()
    done: bool = False
    off: str = ""


def node_remove(
    request: NodeRemoveRequest,
    session: Session,
    confirm: Callable[[RemovalPlan, tuple[str, ...], AnsweringMachine], bool],
) -> RemoveResult:
    """Inspect, refuse or remove, and verify.

    Raises:
        NodeUnreachable: the API or etcd does not answer, or the node is too busy to tell what it
            is; nothing was changed.
        PreflightFailed: the node cannot be removed, or the backup that is needed is not fresh;
            nothing was changed.
        Refused: the records of members cannot be read, it was not confirmed, or another command
            is at work; nothing was changed.
        LeaseLost: another command took the site over between two steps.
        PlaybookFailed: the machine could not be cleaned.
        ClusterError: the API or etcd refused.
        StepNotVerified: an object that was deleted is still there; or the power of the lost
            machine could not be cut, and nothing was deleted.
    """
    if request.removal.node not in {node.name for node in request.site.cluster_members}:
        raise Refused(
            f"{request.removal.node}: the inventory has no cluster node of this name",
            hint=f"appliance site show --site {request.site.directory}",
        )
    run = _Removal(request, session)
    plan, forecast = run.plan(), run.forecast()
    # A machine that is not cleaned is lost: nothing on it is at risk. What began goes on.
    if plan.reset is not None:
        goes_on = not plan.record or request.dry_run or request.without_backup
        ask_where_data_is(request.site, session, [plan.node], only_said=goes_on)
    observed_at = session.clock.monotonic()
    if request.dry_run or plan.is_empty:
        return RemoveResult(plan, forecast)
    require_confirmed(confirm(plan, forecast, run.machine))
    with session.lock:
        if is_late(session.clock, observed_at):
            now = _Removal(request, session)
            plan = now.plan()
            require_same_plan(request.run, run.differences(now))
            run = now
        run.carry_out(plan)
    return RemoveResult(plan, forecast, done=True, off=run.off)


class _Removal:
    """One removal: what was seen of the node, and the steps."""

    def __init__(self, request: NodeRemoveRequest, session: Session) -> None:
        name = request.removal.node
        records = read_all_records(session.archive)
        passport = read_passport(session.archive, name)
        self._request = request
        self._session = session
        # Of the others, those that were removed before are not asked.
        self._site = request.site.without(removed(request.site, records) - {name})
        self._node: Node = self._site.node(name)
        self._recorder = Recorder(request.run, session)
        self._record = records.get(name) or MemberRecord(name)
        self._accepted = passport.machine if passport else None
        self.off = ""

    def plan(self) -> RemovalPlan:
        """What is to be done.

        Raises:
            PreflightFailed: something forbids it.
        """
        self._plan = self._planned()
        refuse((*self.under_way(), *self._plan.refusals))
        return self._plan

    def forecast(self) -> tuple[str, ...]:
        """What becomes of the node's pods."""
        self._forecast = (
            self._session.emptying.forecast(self._node.name) if self._plan.drain else ()
        )
        return self._forecast

    def differences(self, now: _Removal) -> tuple[str, ...]:
        """How a removal that was planned later differs; pods that only move count for nothing."""
        lost = sorted({*losses(now.forecast())} - {*losses(self._forecast)})
        return (
            *differing(self._outline(), now._outline()),
            *(f"only in the new plan: {line}" for line in lost),
        )

    def _outline(self) -> tuple[str, ...]:
        plan = self._plan
        reset = f"{plan.node}: it is proved by {plan.reset.vouched}" if plan.reset else ""
        return (*plan.sentences(), reset, *plan.to_clean, self.machine.claim)

    def _planned(self) -> RemovalPlan:
        session, name = self._session, self._node.name
        observed, look = observe(self._site, session.nodes, session.cluster)
        self.machine = answering(self._node, look)
        # A member that looks bare would be forgotten under its running pods.
        node_facts = observed.node_facts
        require_evidence({name: node_facts[name]} if name in node_facts else {})
        if not isinstance(observed.cluster, Cluster):
            reason = observed.cluster.reason if isinstance(observed.cluster, Unreachable) else ""
            raise NodeUnreachable(
                f"{self._node.name}: the cluster does not answer: {reason or 'none yet'}",
                hint="see what is wrong: appliance status",
            )
        self._observed = observed
        self._cluster = observed.cluster
        self._asked, members = self._ask_etcd(observed)
        report = self._ask_bmc(observed, observed.cluster)
        return plan_removal(
            self._site,
            observed,
            self._request.removal,
            Answers(
                members,
                report,
                look.alive(name),
                self._accepted,
                deceives=look.deceiver(name),
                fence=self._look_at_fence(report),
            ),
            removed=self._record.removed,
        )

    def under_way(self) -> tuple[Refusal, ...]:
        """An upgrade needs each control-plane node that works; one that is lost may be removed."""
        member = self._cluster.nodes.get(self._node.name)
        if self._node not in self._site.control_plane or member is None or not member.ready:
            return ()
        return under_way(self._site, self._cluster)

    def _ask_bmc(self, observed: Observed, cluster: Cluster) -> BmcReport | None:
        """The BMC's report of a member whose machine does not answer."""
        member = cluster.nodes.get(self._node.name)
        facts = observed.node_facts.get(self._node.name)
        removed = self._record.removed
        accepted = accepted_of(self._node.name, member, self._accepted, removed)
        machine = accepted.machine
        ours = facts and is_same_machine(machine, facts) and not is_nameless(machine, facts)
        if member is None or ours:
            return None
        return self._session.bmcs.report(self._node)

    def _look_at_fence(self, report: BmcReport | None) -> Fence | None:
        """What the BMC can do about a machine that it reports as on and that does not answer."""
        told = report is not None and not (report.reason or report.powered_off)
        if not told or self._node.name in self._observed.node_facts or self._request.removal.sworn:
            return None
        member = self._cluster.nodes.get(self._node.name)
        removed = self._record.removed
        return look_at_fence(self._node, member, self.machine, self._session, removed)

    def _ask_etcd(self, observed: Observed) -> tuple[Node | None, tuple[EtcdMember, ...]]:
        """Etcd's members as another control-plane node lists them."""
        control_plane = self._site.control_plane
        if self._node not in control_plane:
            return None, ()
        others = [node for node in control_plane if node != self._node] or list(control_plane)
        reasons = []
        for node in others:
            if node.name not in observed.node_facts:
                reasons.append(f"{node.name}: not reached")
                continue
            try:
                return node, tuple(self._session.etcd.members(node))
            except NodeUnreachable as error:
                reasons.append(error.message)
        raise NodeUnreachable(
            f"{self._node.name}: no other control-plane node can list etcd's members: "
            f"{'; '.join(reasons)}",
            hint="see what is wrong: appliance status",
        )

    def carry_out(self, plan: RemovalPlan) -> None:
        session, name = self._session, self._node.name
        self._recorder.begin()
        if plan.fence:
            with self._step("fence", plan.fence.sentence().partition(": ")[2]):
                self.off = cut_power(self._node, plan.fence, "fence", session, self._still_lost)
        if plan.drain:
            with self._step("drain", "its pods are evicted"):
                session.emptying.empty(name)
        self._write_down(plan)
        if plan.etcd and self._asked:
            with self._step("etcd", f"its member {plan.etcd.id} is removed"):
                session.etcd.remove(self._asked, plan.etcd)
                self._verify_etcd(self._asked, plan.etcd)
        if plan.reset:
            with self._step(RESET, "no cluster data stays on the machine"):
                self._reset(plan.reset)
            self._write(replace(self._removal(), reset=True))
        if plan.delete:
            with self._step("node_object", "its Node object is deleted"):
                session.members.delete(name)
                self._verify_gone()

    def _still_lost(self) -> None:
        require_not_ready(self._node, self._session.cluster.read(self._observed.node_facts))

    def _write_down(self, plan: RemovalPlan) -> None:
        """Record the removal and the node's metadata before the first irreversible change."""
        member = self._cluster.nodes.get(self._node.name)
        kept = self._record.kept
        if member is not None:
            kept = merged(kept, metadata_of(member))
        self._record = replace(self._record, kept=kept)
        if plan.record:
            with self._step("record", "the removal and the node's metadata are recorded"):
                at = datetime.fromtimestamp(self._session.clock.now(), UTC)
                self._write(
                    Removal(
                        by=f"{self._request.run.operator}@{self._request.run.host}",
                        at=at.isoformat(timespec="seconds"),
                        reason=self._request.removal.reason,
                        serial=plan.machine.serial,
                        address=self._node.ip,
                        etcd_member=plan.etcd is not None,
                        identity=plan.machine,
                    )
                )
        else:
            self._write(self._removal())

    def _removal(self) -> Removal:
        assert self._record.removed is not None  # noqa: S101  (written before)
        return self._record.removed

    def _write(self, removal: Removal) -> None:
        self._record = replace(self._record, removed=removal)
        self._session.archive.put(self._record.document, self._record.text())

    def _reset(self, reset: Reset) -> None:
        session, site, name = self._session, self._site, self._node.name
        member, seen = self._cluster.nodes.get(name), self._observed.node_facts.get(name)
        socket = cri_socket(member, seen, self._request.runtimes)
        inventory = reset_inventory(site, self._node, reset, socket)
        play = Play(self._request.run.id, RESET, (name,), inventory)

        def on_task(node: str, task: str, changed: bool | None) -> None:
            session.observer.task(RESET, node, task, changed=changed)

        session.playbooks.play(play, on_task)
        look = look_patiently(session.nodes, [self._node])
        facts = look.node_facts.get(name)
        left = left_behind(facts) if facts else (look.faults[0].reason,)
        if left:
            raise StepNotVerified(
                f"{name}: was cleaned, but {left[0]}",
                hint="run the same command again: it resumes here",
                details=left[1:],
            )

    def _verify_etcd(self, asked: Node, member: EtcdMember) -> None:
        if any(one.id == member.id for one in self._session.etcd.members(asked)):
            raise StepNotVerified(
                f"{self._node.name}: etcd still lists its member {member.id}",
                hint="run the same command again: it resumes here",
            )

    def _verify_gone(self) -> None:
        state = self._session.cluster.read(self._observed.node_facts)
        if not isinstance(state, Cluster) or self._node.name in state.nodes:
            raise StepNotVerified(
                f"{self._node.name}: its Node object was deleted, but the cluster has one again",
                hint="a kubelet still runs under this name: find the machine (kubectl get node "
                f"{self._node.name} -o wide), stop its kubelet, then run the same command again",
            )

    def _step(self, name: str, why: str) -> AbstractContextManager[Evidence]:
        return self._recorder.on_node(name, self._node.name, why)


def reset_inventory(site: Site, node: Node, reset: Reset, socket: str) -> dict[str, object]:
    """The run's inventory for one machine to clean; this needs no bundle."""
    variables = {
        **connection_vars(site),
        "node_reset_users": [site.settings.ssh.user],
        "node_reset_node_name": node.name,
        "node_reset_machine_id": reset.machine_id,
        "node_reset_api_hosts": list(reset.hosts),
        "node_reset_ca_sha256": reset.ca,
        "node_reset_vouched": reset.vouched,
        "node_reset_cri_socket": socket,
    }
    hosts = {node.name: {"ansible_host": node.ip}}
    return {"all": {"vars": variables, "hosts": hosts}}
