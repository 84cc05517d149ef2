"""Let a machine join under a known or a new name: shared by rejoin and add.

A join is an install of that one node. This module does the checks before it: no other machine
runs under the name, and this is the intended machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable, Refused
from appliance.model.node.accepted import AcceptedMachine, accepted_of
from appliance.model.node.answering import AnsweringMachine, answering_as
from appliance.model.node.baseline import Passport
from appliance.model.node.etcd_quorum import may_go
from appliance.model.node.fencing import FencingEvidence, FencingProof, check_fenced, same_machine
from appliance.model.node.membership import MemberRecord, as_recorded
from appliance.model.plan.planner import Scope
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster, ClusterNode, Unreachable
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.journal import Run
from appliance.model.state.nodes.kubeadm_state import is_member
from appliance.model.state.nodes.node_metadata import NodeMetadata
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Plan, Refusal
from appliance.workflows.install import InstallRequest, InstallResult, install
from appliance.workflows.node.baselines import read_passport
from appliance.workflows.session.confirmation import differing, require_same_plan
from appliance.workflows.session.member_records import read_all_records
from appliance.workflows.session.survey import observe, refuse, require_evidence

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class JoinRequest:
    """What was asked for, by whom, with which tool.

    Attributes:
        desired: what the inventory asks for, nodes that were removed included.
        replace: the name whose place the machine takes; None when it is its own.
        sworn: the operator says that the old machine is dead.
    """

    desired: Desired
    node: str
    run: Run
    replace: str | None = None
    sworn: bool = False
    dry_run: bool = False


# Is shown the plan, the proof, and the machine that answers.
Confirm = Callable[[Plan, tuple[str, ...], AnsweringMachine], bool]


@dataclass(frozen=True)
class JoinResult:
    """The result: the install of the node in its site, and the evidence before it."""

    site: Site
    installed: InstallResult
    said: tuple[str, ...]


@dataclass(frozen=True)
class JoinLook:
    """The observations before the first decision.

    Attributes:
        desired: without nodes that were removed on purpose, other than this one.
        records: node -> what is written down of it.
        passport: the node's, or None.
        replaced: the passport of the name whose place the machine takes, or None.
    """

    desired: Desired
    records: Mapping[str, MemberRecord]
    passport: Passport | None
    replaced: Passport | None
    node: Node
    observed: Observed
    cluster: Cluster
    facts: NodeFacts
    member: ClusterNode | None
    accepted: AcceptedMachine

    @property
    def is_working_member(self) -> bool:
        """The machine that answers is the member that the cluster knows."""
        return self.member is not None and is_member(self.facts)


def look(request: JoinRequest, session: Session) -> JoinLook:
    """Read what is written down, and look at everything once.

    Raises:
        Refused: the inventory has no such member, or what is written down is not readable.
        NodeUnreachable: the machine or the API does not answer, or the machine is too busy to tell
            what it is.
    """
    name = request.node
    records = read_all_records(session.archive)
    desired = as_recorded(request.desired, records, back=[name])
    site = desired.site
    if name not in {node.name for node in site.cluster_members}:
        raise Refused(
            f"{name}: the inventory has no cluster node of this name",
            hint="add it to hosts.yml and host_vars/, then: appliance site check",
        )
    observed, found = observe(site, session.nodes, session.cluster)
    for fault in found.faults:
        if fault.node == name:
            raise NodeUnreachable(fault.reason, hint=fault.hint)
    require_evidence({name: observed.node_facts[name]})
    if not isinstance(observed.cluster, Cluster):
        reason = (
            observed.cluster.reason if isinstance(observed.cluster, Unreachable) else "none yet"
        )
        raise NodeUnreachable(
            f"{name}: the cluster does not answer: {reason}",
            hint="see what is wrong: appliance status; for a first install: appliance install",
        )
    member, record = observed.cluster.nodes.get(name), records.get(name)
    passport = read_passport(session.archive, name)
    machine = passport.machine if passport else None
    return JoinLook(
        desired,
        records,
        passport,
        read_passport(session.archive, request.replace) if request.replace else None,
        site.node(name),
        observed,
        observed.cluster,
        observed.node_facts[name],
        member,
        accepted_of(name, member, machine, record.removed if record else None),
    )


@dataclass(frozen=True)
class _Join:
    """One join as it was judged: the install, the evidence in words, the machine that answers."""

    seen: JoinLook
    installing: InstallRequest
    said: tuple[str, ...]
    machine: AnsweringMachine

    def outline(self) -> tuple[str, ...]:
        """What a person agrees to, beside the plan of the install."""
        removed = sorted(name for name, one in self.seen.records.items() if one.removed)
        return (*self.said, self.machine.claim, *(f"{name}: is removed" for name in removed))


def join(
    request: JoinRequest, session: Session, confirm: Confirm, see: Callable[[], JoinLook]
) -> JoinResult:
    """Verify that the name is free for this machine, then install the node.

    Args:
        request: what was asked for.
        session: the session.
        confirm: is shown the plan, the evidence and the machine.
        see: looks at everything, and refuses what its command refuses; called again under the lock
            after a late answer.

    Raises:
        PreflightFailed: the old machine may be running, or it is another machine, or etcd would
            lose its quorum; nothing was changed.
        what :func:`install` raises.
    """
    first = _judged(request, session, see())

    def ask_again() -> InstallRequest:
        now = _judged(request, session, see())
        require_same_plan(request.run, differing(first.outline(), now.outline()))
        return now.installing

    installed = install(
        first.installing, session, lambda plan: confirm(plan, first.said, first.machine), ask_again
    )
    if not request.dry_run and not installed.steps:
        _forget_removal(first.seen, session)
    return JoinResult(first.seen.desired.site, installed, first.said)


def _judged(request: JoinRequest, session: Session, seen: JoinLook) -> _Join:
    """What is to be done, by what was seen.

    Raises:
        PreflightFailed: something is in the way; nothing was changed.
    """
    refuse(_of_old_data(request, seen))
    if seen.is_working_member:
        fenced, returning = f"{request.node}: is already a member", frozenset[str]()
    else:
        fenced, returning = _judge(request, session, seen), frozenset({request.node})
    kept = _kept(request, seen)
    desired = replace(
        seen.desired,
        returning=returning,
        kept={**seen.desired.kept, **({request.node: kept} if kept else {})},
    )
    installing = InstallRequest(
        desired,
        request.run,
        Scope(nodes=frozenset({request.node}), joining=frozenset({request.node})),
        request.dry_run,
        accept=frozenset({request.node}) if request.replace else frozenset(),
    )
    doubt = seen.accepted.doubt
    said = (fenced, *([f"{request.node}: {doubt}"] if doubt else []))
    return _Join(seen, installing, said, answering_as(seen.node, seen.facts))


def _judge(request: JoinRequest, session: Session, seen: JoinLook) -> str:
    """The proof, in words.

    Raises:
        PreflightFailed: something is in the way.
    """
    evidence = FencingEvidence(
        request.node,
        seen.member,
        seen.facts,
        seen.accepted.machine,
        request.sworn,
        session.bmcs.report(seen.node) if seen.member else None,
    )
    other = same_machine(evidence, replaces=request.replace == request.node)
    accepted = seen.accepted
    if other:
        refuse([accepted.tell(other)])
    fenced = check_fenced(evidence)
    refused = [accepted.tell(fenced)] if isinstance(fenced, Refusal) else []
    refuse([*refused, *_of_etcd(request, session, seen)])
    assert isinstance(fenced, FencingProof)  # noqa: S101  (for the type checker: it was refused)
    return f"{request.node}: {fenced.text}"


def _of_old_data(request: JoinRequest, seen: JoinLook) -> list[Refusal]:
    """A machine that was away when its etcd member was taken out must not start with its data."""
    record = seen.records.get(request.node)
    gone = record.removed if record else None
    if gone is None or gone.reset or not seen.facts.at("kubernetes.etcd_data.present"):
        return []
    return [
        Refusal(
            request.node,
            "etcd",
            "the data of a member that etcd has removed",
            "an empty machine (this machine was off when its node was removed)",
            f"clean it: appliance node remove {request.node}; then run the same command again",
        )
    ]


def _of_etcd(request: JoinRequest, session: Session, seen: JoinLook) -> list[Refusal]:
    """Whether etcd can remove the member of the old machine."""
    control_plane_nodes = seen.desired.site.control_plane
    if seen.node not in control_plane_nodes:
        return []
    reasons = []
    for node in control_plane_nodes:
        if node == seen.node or node.name not in seen.observed.node_facts:
            continue
        try:
            verdict = may_go(session.etcd.members(node), seen.node.ip, seen.node.name)
        except NodeUnreachable as error:
            reasons.append(error.message)
            continue
        if verdict.may_go:
            return []
        return [Refusal(request.node, "etcd", verdict.seen, verdict.expected, verdict.hint)]
    raise NodeUnreachable(
        f"{request.node}: no other control-plane node can list etcd's members: "
        f"{'; '.join(reasons) or 'none was reached'}",
        hint="see what is wrong: appliance status",
    )


def _kept(request: JoinRequest, seen: JoinLook) -> NodeMetadata | None:
    """What the node is to have: its own of before, or that of the node whose place it takes.

    The passport knows it where the Node object was deleted by other means than ours.
    """
    owner = request.replace or request.node
    record = seen.records.get(owner)
    if record and record.kept:
        return record.kept
    passport = seen.replaced if request.replace else seen.passport
    return passport.belongings if passport and owner not in seen.cluster.nodes else None


def _forget_removal(seen: JoinLook, session: Session) -> None:
    """A member that was to be removed, and was not, stays: on the operator's word."""
    record = seen.records.get(seen.node.name)
    if record and record.removed:
        stays = replace(record, removed=None)
        with session.lock:
            session.lock.require()
            session.archive.put(stays.document, stays.text())
