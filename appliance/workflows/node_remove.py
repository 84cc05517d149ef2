"""Take a node out of the cluster, alive or dead, so that nothing of it is left anywhere.

A second run goes on where one was killed: the plan follows from what is observed and from the
document that says that the node is removed. What must not be here: what forbids it (that is
:mod:`appliance.model.removal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable, Refused, StepNotProven
from appliance.model.accepted import accepted_of
from appliance.model.answering import answering
from appliance.model.cluster import Cluster, Unreachable
from appliance.model.left_behind import left_behind
from appliance.model.membership import MemberRecord, Removal, belongings_of, merged
from appliance.model.observation import Play
from appliance.model.removal import (
    Answers,
    RemovalPlan,
    RemovalWish,
    Reset,
    is_nameless,
    is_same_machine,
    plan_removal,
)
from appliance.model.role_vars import connection_vars
from appliance.workflows.recording import Recorder
from appliance.workflows.survey import look_patiently, observe, refuse, require_evidence

if TYPE_CHECKING:
    from appliance.model.answering import Answering
    from appliance.model.bmc import BmcReport
    from appliance.model.journal import Run
    from appliance.model.machine_identity import MachineIdentity
    from appliance.model.postconditions import Observed
    from appliance.model.quorum import EtcdMember
    from appliance.model.site import Node, Site
    from appliance.workflows.ports import (
        Archive,
        Bmcs,
        Clock,
        ClusterApi,
        Emptying,
        Etcd,
        JournalPort,
        Members,
        Nodes,
        Observer,
        Playbooks,
    )

COMMAND = "node remove"
RESET = "node_reset"


@dataclass(frozen=True)
class NodeRemoveRequest:
    """What was asked for, by whom, with which tool.

    Attributes:
        record: what is written down of the node.
        accepted: the machine in its passport, or None.
    """

    site: Site
    wish: RemovalWish
    run: Run
    record: MemberRecord | None = None
    accepted: MachineIdentity | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class NodeRemovePorts:
    """Everything outside that is needed."""

    nodes: Nodes
    cluster: ClusterApi
    members: Members
    etcd: Etcd
    bmcs: Bmcs
    emptying: Emptying
    archive: Archive
    playbooks: Playbooks
    journal: JournalPort
    clock: Clock
    observer: Observer
    confirm: Callable[[RemovalPlan, tuple[str, ...], Answering], bool]


@dataclass(frozen=True)
class NodeRemoved:
    """How it ended: the plan, what the pods' forecast said, and whether it was carried out."""

    plan: RemovalPlan
    forecast: tuple[str, ...] = ()
    done: bool = False


def node_remove(request: NodeRemoveRequest, ports: NodeRemovePorts) -> NodeRemoved:
    """Look, refuse or remove, and look again.

    Raises:
        NodeUnreachable: the API or etcd does not answer, or the node is too busy to tell what it
            is; nothing was changed.
        PreflightFailed: the node may not go; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        LeaseLost: another command took the site over between two steps.
        PlaybookFailed: the machine could not be emptied.
        ClusterError: the API or etcd refused.
        StepNotProven: what was to be gone is still there.
    """
    if request.wish.node not in {node.name for node in request.site.cluster_members}:
        raise Refused(
            f"{request.wish.node}: the inventory has no such member of the cluster",
            hint=f"appliance site show --site {request.site.directory}",
        )
    run = _Removal(request, ports)
    plan = run.plan()
    refuse(plan.refusals)
    forecast = ports.emptying.forecast(plan.node) if plan.drain else ()
    if request.dry_run or plan.is_empty:
        return NodeRemoved(plan, forecast)
    if not ports.confirm(plan, forecast, run.machine):
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")
    run.carry_out(plan)
    return NodeRemoved(plan, forecast, done=True)


class _Removal:
    """One removal: what was seen of the node, and the steps."""

    def __init__(self, request: NodeRemoveRequest, ports: NodeRemovePorts) -> None:
        self._request = request
        self._ports = ports
        self._node: Node = request.site.node(request.wish.node)
        self._recorder = Recorder(request.run, ports.journal, ports.clock)
        self._record = request.record or MemberRecord(self._node.name)

    def plan(self) -> RemovalPlan:
        ports, name = self._ports, self._node.name
        observed, look = observe(self._request.site, ports.nodes, ports.cluster)
        self.machine = answering(self._node, look)
        # A member that looks bare would be forgotten under its running pods.
        photographs = observed.photographs
        require_evidence({name: photographs[name]} if name in photographs else {})
        if not isinstance(observed.cluster, Cluster):
            reason = observed.cluster.reason if isinstance(observed.cluster, Unreachable) else ""
            raise NodeUnreachable(
                f"{self._node.name}: there is no cluster that answers {reason}".rstrip(),
                hint="see what is wrong: appliance status",
            )
        self._observed = observed
        self._cluster = observed.cluster
        self._asked, members = self._ask_etcd(observed)
        return plan_removal(
            self._request.site,
            observed,
            self._request.wish,
            Answers(
                members,
                self._ask_bmc(observed, observed.cluster),
                look.alive(name),
                self._request.accepted,
                deceives=look.deceiver(name),
            ),
            removed=self._record.removed,
        )

    def _ask_bmc(self, observed: Observed, cluster: Cluster) -> BmcReport | None:
        """What the BMC says of a member whose machine does not answer itself."""
        member = cluster.nodes.get(self._node.name)
        photo = observed.photographs.get(self._node.name)
        removed = self._record.removed
        accepted = accepted_of(self._node.name, member, self._request.accepted, removed)
        machine = accepted.machine
        ours = photo and is_same_machine(machine, photo) and not is_nameless(machine, photo)
        if member is None or ours:
            return None
        return self._ports.bmcs.report(self._node)

    def _ask_etcd(self, observed: Observed) -> tuple[Node | None, tuple[EtcdMember, ...]]:
        """Etcd's members as another control-plane node lists them."""
        masters = self._request.site.control_plane
        if self._node not in masters:
            return None, ()
        others = [node for node in masters if node != self._node] or list(masters)
        reasons = []
        for node in others:
            if node.name not in observed.photographs:
                reasons.append(f"{node.name}: not reached")
                continue
            try:
                return node, tuple(self._ports.etcd.members(node))
            except NodeUnreachable as error:
                reasons.append(error.message)
        raise NodeUnreachable(
            f"{self._node.name}: no other control-plane node can say who etcd's members are: "
            f"{'; '.join(reasons)}",
            hint="see what is wrong: appliance status",
        )

    def carry_out(self, plan: RemovalPlan) -> None:
        ports, name = self._ports, self._node.name
        self._recorder.begin()
        if plan.drain:
            with self._step("drain", "its pods move away"):
                ports.emptying.empty(name)
        self._write_down(plan)
        if plan.etcd and self._asked:
            with self._step("etcd", f"its member {plan.etcd.id} is taken out"):
                ports.etcd.remove(self._asked, plan.etcd)
                self._prove_etcd(self._asked, plan.etcd)
        if plan.reset:
            with self._step(RESET, "nothing of a member stays on it"):
                self._reset(plan.reset)
            self._write(replace(self._removal(), reset=True))
        if plan.delete:
            with self._step("node_object", "the cluster forgets it"):
                ports.members.delete(name)
                self._prove_gone()

    def _write_down(self, plan: RemovalPlan) -> None:
        """Before the first thing that cannot be undone: that it is on purpose, and what it had."""
        member = self._cluster.nodes.get(self._node.name)
        kept = self._record.kept
        if member is not None:
            kept = merged(kept, belongings_of(member))
        self._record = replace(self._record, kept=kept)
        if plan.record:
            with self._step("record", "it is removed on purpose, with what it had"):
                at = datetime.fromtimestamp(self._ports.clock.now(), UTC)
                self._write(
                    Removal(
                        by=f"{self._request.run.operator}@{self._request.run.host}",
                        at=at.isoformat(timespec="seconds"),
                        reason=self._request.wish.reason,
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
        self._ports.archive.put(self._record.document, self._record.text())

    def _reset(self, reset: Reset) -> None:
        ports, site, name = self._ports, self._request.site, self._node.name
        inventory = reset_inventory(site, self._node, reset)
        play = Play(self._request.run.id, RESET, (name,), inventory)

        def on_task(node: str, task: str, changed: bool | None) -> None:
            ports.observer.task(RESET, node, task, changed=changed)

        ports.playbooks.play(play, on_task)
        look = look_patiently(ports.nodes, [self._node])
        photo = look.photographs.get(name)
        left = left_behind(photo) if photo else (look.faults[0].reason,)
        if left:
            raise StepNotProven(
                f"{name}: was emptied, but {left[0]}",
                hint="the same command goes on from here",
                details=left[1:],
            )

    def _prove_etcd(self, asked: Node, member: EtcdMember) -> None:
        if any(one.id == member.id for one in self._ports.etcd.members(asked)):
            raise StepNotProven(
                f"{self._node.name}: etcd still lists its member {member.id}",
                hint="the same command goes on from here",
            )

    def _prove_gone(self) -> None:
        state = self._ports.cluster.read(self._observed.photographs)
        if not isinstance(state, Cluster) or self._node.name in state.nodes:
            raise StepNotProven(
                f"{self._node.name}: its Node object was deleted, and the cluster still has one",
                hint="a kubelet still runs under that name: find it, then run the command again",
            )

    @contextmanager
    def _step(self, name: str, why: str) -> Iterator[None]:
        whose, reasons = (self._node.name,), (f"{self._node.name}: {why}",)
        with self._recorder.shown(self._ports.observer, name, whose, reasons):
            yield


def reset_inventory(site: Site, node: Node, reset: Reset) -> dict[str, object]:
    """The run's inventory for one machine that is emptied: no bundle is needed for that."""
    variables = {
        **connection_vars(site),
        "node_reset_users": [site.settings.ssh.user],
        "node_reset_node_name": node.name,
        "node_reset_machine_id": reset.machine_id,
        "node_reset_api_hosts": list(reset.hosts),
        "node_reset_ca_sha256": reset.ca,
        "node_reset_vouched": reset.vouched,
    }
    hosts = {node.name: {"ansible_host": node.ip}}
    return {"all": {"vars": variables, "hosts": hosts}}
