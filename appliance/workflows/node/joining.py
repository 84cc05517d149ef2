"""Let a machine join under a name that was known before, or is new: shared by rejoin and add.

It is an install of that one node. What is said here comes before it: that nothing acts under the
name any more, and that it is the machine that was meant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable, Refused
from appliance.model.node.accepted import AcceptedMachine, accepted_of
from appliance.model.node.answering import AnsweringMachine, answering_as
from appliance.model.node.baseline import Passport
from appliance.model.node.etcd_quorum import may_go
from appliance.model.node.fencing import FencingEvidence, FencingProof, check_fenced, same_machine
from appliance.model.node.membership import MemberRecord
from appliance.model.plan.planner import Scope
from appliance.model.site.settings import Node
from appliance.model.state.cluster import Cluster, ClusterNode, Unreachable
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.journal import Run
from appliance.model.state.kubeadm_state import is_member
from appliance.model.state.node_metadata import NodeMetadata
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Plan, Refusal
from appliance.workflows.install import InstallRequest, InstallResult, install
from appliance.workflows.session.survey import observe, refuse, require_evidence

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class JoinRequest:
    """What was asked for, by whom, with which tool.

    Attributes:
        desired: with the node in its site, removed or not.
        records: node -> what is written down of it.
        passport: the node's, or None.
        replace: the name whose place the machine takes; None when it is its own.
        replaced: the passport under that name, or None.
        sworn: the operator says that the old machine is dead.
    """

    desired: Desired
    node: str
    run: Run
    records: dict[str, MemberRecord]
    passport: Passport | None = None
    replace: str | None = None
    replaced: Passport | None = None
    sworn: bool = False
    dry_run: bool = False


# Is shown the plan, the proof, and the machine that answers.
Confirm = Callable[[Plan, tuple[str, ...], AnsweringMachine], bool]


@dataclass(frozen=True)
class JoinResult:
    """How it ended: the install of the node, and what was said before it."""

    installed: InstallResult
    said: tuple[str, ...]


@dataclass(frozen=True)
class JoinLook:
    """What was looked at before anything was decided."""

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
    """Look at everything once.

    Raises:
        Refused: the inventory has no such member.
        NodeUnreachable: the machine or the API does not answer, or the machine is too busy to tell
            what it is.
    """
    site, name = request.desired.site, request.node
    if name not in {node.name for node in site.cluster_members}:
        raise Refused(
            f"{name}: the inventory has no such member of the cluster",
            hint="write it into hosts.yml and host_vars, then: appliance site check",
        )
    observed, found = observe(site, session.nodes, session.cluster)
    for fault in found.faults:
        if fault.node == name:
            raise NodeUnreachable(fault.reason, hint=fault.hint)
    require_evidence({name: observed.node_facts[name]})
    if not isinstance(observed.cluster, Cluster):
        reason = observed.cluster.reason if isinstance(observed.cluster, Unreachable) else "none"
        raise NodeUnreachable(
            f"{name}: there is no cluster that answers: {reason}",
            hint="see what is wrong: appliance status; a first install: appliance install",
        )
    member, record = observed.cluster.nodes.get(name), request.records.get(name)
    passport = request.passport.machine if request.passport else None
    return JoinLook(
        site.node(name),
        observed,
        observed.cluster,
        observed.node_facts[name],
        member,
        accepted_of(name, member, passport, record.removed if record else None),
    )


def join(request: JoinRequest, session: Session, confirm: Confirm, seen: JoinLook) -> JoinResult:
    """Prove that the name is free for this machine, then install the node.

    Raises:
        PreflightFailed: the old machine may be alive, or it is another machine, or etcd would
            lose its quorum; nothing was changed.
        what :func:`install` raises.
    """
    refuse(_of_old_data(request, seen))
    if seen.is_working_member:
        fenced, returning = f"{request.node}: is a member already", frozenset[str]()
    else:
        fenced, returning = _judge(request, session, seen), frozenset({request.node})
    kept = _kept(request, seen)
    desired = replace(
        request.desired,
        returning=returning,
        kept={**request.desired.kept, **({request.node: kept} if kept else {})},
    )
    installing = InstallRequest(
        desired,
        request.run,
        Scope(nodes=frozenset({request.node})),
        request.dry_run,
        accept=frozenset({request.node}) if request.replace else frozenset(),
    )
    doubt = seen.accepted.doubt
    said = (fenced, *([f"{request.node}: {doubt}"] if doubt else []))
    machine = answering_as(seen.node, seen.facts)
    installed = install(installing, session, lambda plan: confirm(plan, said, machine))
    if not request.dry_run and not installed.steps:
        _forget_removal(request, session)
    return JoinResult(installed, said)


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
    record = request.records.get(request.node)
    gone = record.removed if record else None
    if gone is None or gone.reset or not seen.facts.at("kubernetes.etcd_data.present"):
        return []
    return [
        Refusal(
            request.node,
            "etcd",
            "the data of a member that etcd has let go",
            "an empty machine: it was away when it was removed",
            f"empty it: appliance node remove {request.node}; then the same command",
        )
    ]


def _of_etcd(request: JoinRequest, session: Session, seen: JoinLook) -> list[Refusal]:
    """Whether etcd can let go of the member that the old machine left."""
    control_plane_nodes = request.desired.site.control_plane
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
        f"{request.node}: no other control-plane node can say who etcd's members are: "
        f"{'; '.join(reasons) or 'none was reached'}",
        hint="see what is wrong: appliance status",
    )


def _kept(request: JoinRequest, seen: JoinLook) -> NodeMetadata | None:
    """What the node is to have: its own of before, or that of the node whose place it takes.

    The passport knows it where the Node object was deleted by other means than ours.
    """
    owner = request.replace or request.node
    record = request.records.get(owner)
    if record and record.kept:
        return record.kept
    passport = request.replaced if request.replace else request.passport
    return passport.belongings if passport and owner not in seen.cluster.nodes else None


def _forget_removal(request: JoinRequest, session: Session) -> None:
    """A member that was to be removed, and was not, stays: on the operator's word."""
    record = request.records.get(request.node)
    if record and record.removed:
        stays = replace(record, removed=None)
        with session.lock:
            session.lock.require()
            session.archive.put(stays.document, stays.text())
