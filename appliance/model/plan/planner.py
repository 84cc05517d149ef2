"""``plan(desired, observed) -> Plan``: no I/O, no clock, no memory of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from appliance.model.components.base.component import Step
from appliance.model.node.fencing import FencingEvidence, same_machine
from appliance.model.node.maintenance_claims import Claim, claims_of
from appliance.model.plan.judging import SettledSteps, in_scope, judge, reasons_of_others
from appliance.model.plan.restored_without import restored_without
from appliance.model.plan.second_cluster import orphans, second_cluster
from appliance.model.plan.steps import INSTALL
from appliance.model.plan.under_upgrade import under_upgrade
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.settings import Node
from appliance.model.site.ssh import ssh_command
from appliance.model.state.cluster.cluster import Cluster, NoCluster, Unreachable
from appliance.model.state.desired import Desired
from appliance.model.state.facts.identity import MachineIdentity, is_same
from appliance.model.state.findings import Finding
from appliance.model.state.nodes.node_state import in_maintenance, node_states
from appliance.model.state.observed import Observed
from appliance.model.state.plan import (
    Choice,
    ControlPlaneAction,
    Notice,
    Plan,
    PlannedStep,
    Reason,
    Refusal,
    UnknownFact,
)


@dataclass(frozen=True)
class Scope:
    """The requested part of an install.

    Attributes:
        only: this step alone; or None.
        until: up to and including this step; or None.
        nodes: only these nodes; empty means all.
        again: with ``only``: run the step also where its post-condition is met.
        joining: nodes that join: the other members get what they need to know of them, too.
    """

    only: str | None = None
    until: str | None = None
    nodes: frozenset[str] = frozenset()
    again: bool = False
    joining: frozenset[str] = frozenset()

    def steps(self) -> tuple[Step, ...]:
        """The steps in scope, in order."""
        if self.only:
            return tuple(step for step in INSTALL if step.name == self.only)
        names = [step.name for step in INSTALL]
        end = names.index(self.until) + 1 if self.until else len(names)
        return INSTALL[:end]


EVERYTHING = Scope()
# The reason of a step whose post-condition is met already.
AGAIN = "requested with --again"


def plan(
    desired: Desired,
    observed: Observed,
    findings: Sequence[Finding] = (),
    scope: Scope = EVERYTHING,
) -> Plan:
    """Return the steps that turn ``observed`` into ``desired``, and the refusals.

    Args:
        desired: site, release and bundle.
        observed: facts of every node, and the cluster's state.
        findings: preflight's findings about the same facts; errors become refusals when
            there is something to do, warnings stay warnings.
        scope: the requested part of the install.
    """
    spared = in_maintenance(desired.site, observed) - scope.nodes
    findings = [f for f in findings if f.of_site or f.node not in spared]
    not_judged = [finding for finding in findings if finding.severity == "unseen"]
    choice, refusals = choose(desired, observed)
    settled = SettledSteps()
    steps: list[PlannedStep] = []
    unknown: list[UnknownFact] = []
    for step in scope.steps():
        judged = judge(step, desired, observed, scope.nodes, with_tests=True)
        reasons = (*judged.reasons, *reasons_of_others(step, desired, observed, scope.joining))
        unknown += judged.unknown
        if scope.again and scope.only and step.has_playbook:
            reasons = _again(step, reasons, desired, observed, scope.nodes)
        if reasons:
            steps.append(_planned(step, reasons, desired, observed, scope.nodes))
        elif step.unmet is not None and not judged.unknown:
            settled.take(step, desired, observed, scope.nodes)
    steps = _with_preflight(scope, desired, observed, steps)
    refusals = (*second_cluster(choice, steps, desired, observed), *refusals)
    refusals = (*refusals, *_forbidden(scope, steps, desired, observed))
    forbidding = [f for f in findings if f.severity == "error" and _forbids(f, steps)]
    errors = [Refusal(f.node, f.check, str(f.seen), str(f.expected), f.hint) for f in forbidding]
    claims = [claim for claim in claims_of(observed.cluster) if claim.node in spared]
    warnings = [Notice(claim.node, _left_alone(claim)) for claim in claims]
    under_way, locked = under_upgrade(desired, observed)
    left, back = restored_without(desired, observed)
    refusals = (*locked, *back, *refusals)
    warnings += [*under_way, *left]
    warnings += [
        Notice(f.node, _words(f))
        for f in findings
        if f.severity == "warning" or (f.severity == "error" and f.step and f not in forbidding)
    ]
    return Plan(
        steps=tuple(steps),
        satisfied=tuple(settled.satisfied),
        not_applicable=tuple(settled.not_applicable),
        unseen=tuple(settled.unseen),
        refusals=(*refusals, *errors) if steps else (),
        unknown=(*unknown, *(_not_judged(finding) for finding in not_judged if steps)),
        warnings=tuple(warnings),
        choice=choice,
    )


def _not_judged(finding: Finding) -> UnknownFact:
    expected, seen = str(finding.expected), str(finding.seen)
    return UnknownFact(finding.node, finding.check, expected, seen, finding.hint)


def _again(
    step: Step,
    reasons: tuple[Reason, ...],
    desired: Desired,
    observed: Observed,
    only: frozenset[str],
) -> tuple[Reason, ...]:
    """Return the reasons for a step, and one for each node without a reason."""
    if step.unmet is None:
        return reasons
    in_need = {reason.node for reason in reasons}
    return reasons + tuple(
        Reason(node.name, AGAIN)
        for node in in_scope(step, desired, observed, only)
        if node.name not in in_need
    )


def _left_alone(claim: Claim) -> str:
    by = f" (written by {', '.join(claim.writers)}, not by appliance)" if claim.writers else ""
    return f"in maintenance{by}, skipped until: appliance node return {claim.node}"


def _forbids(finding: Finding, steps: Sequence[PlannedStep]) -> bool:
    """Whether an error concerns a planned step, or the whole install."""
    return not finding.step or any(step.name == finding.step for step in steps)


def _forbidden(
    scope: Scope, steps: Sequence[PlannedStep], desired: Desired, observed: Observed
) -> tuple[Refusal, ...]:
    """Return refusals of planned steps, unless a step that they need is planned too."""
    planned = {step.name for step in steps}
    return tuple(
        refusal
        for step in scope.steps()
        if step.forbids and step.name in planned and not planned & set(step.needs)
        for refusal in step.forbids(desired, observed)
    )


def _words(finding: Finding) -> str:
    return f"{finding.check}: found {finding.seen}, expected {finding.expected}"


def _planned(
    step: Step,
    reasons: tuple[Reason, ...],
    desired: Desired,
    observed: Observed,
    only: frozenset[str],
) -> PlannedStep:
    in_need = {reason.node for reason in reasons}
    spared = in_maintenance(desired.site, observed)
    nodes = tuple(
        node.name
        for node in step.nodes(desired.site)
        if node.name in in_need
        or (
            step.together
            and node.name in observed.node_facts
            and (node.name in only if only else node.name not in spared)
        )
    )
    members = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    disturbs = step.disturbs and any(name in members for name in nodes)
    return PlannedStep(step.name, nodes, reasons, (step.disturbs,) if disturbs else ())


def _with_preflight(
    scope: Scope, desired: Desired, observed: Observed, steps: list[PlannedStep]
) -> list[PlannedStep]:
    """Put preflight before any change, on every observed node."""
    first = next((step for step in scope.steps() if step.unmet is None), None)
    if first is None or not (steps or scope.only == first.name):
        return steps
    seen = observed.node_facts
    nodes = tuple(node.name for node in first.nodes(desired.site) if node.name in seen)
    if not nodes:
        return steps
    reason = Reason(nodes[0], "it always runs before the first change; it changes nothing")
    return [PlannedStep(first.name, nodes, (reason,)), *steps]


def choose(desired: Desired, observed: Observed) -> tuple[Choice, tuple[Refusal, ...]]:
    """Choose the leader from the observed members, and kubeadm's action on each node."""
    cluster, control_plane_nodes = observed.cluster, desired.site.control_plane
    if isinstance(cluster, NoCluster):
        leader = control_plane_nodes[0].name
        actions: dict[str, ControlPlaneAction] = {node.name: "join" for node in control_plane_nodes}
        actions[leader] = "init"
        workers = (node.name for node in desired.site.workers)
        joining = tuple(name for name in workers if name in observed.node_facts)
        return Choice(leader, actions, joining), orphans(desired, observed)
    if isinstance(cluster, Unreachable):
        return _choose_blind(desired, observed, cluster)
    return _choose_in_cluster(desired, observed, cluster)


def _choose_in_cluster(
    desired: Desired, observed: Observed, cluster: Cluster
) -> tuple[Choice, tuple[Refusal, ...]]:
    control_plane_nodes = desired.site.control_plane
    members = [
        node
        for node in control_plane_nodes
        if (found := cluster.nodes.get(node.name)) is not None
        and found.control_plane
        and not _gone(desired, observed, node)
    ]
    healthy = [node for node in members if _answers(observed, node)]
    carriers = [n for n in control_plane_nodes if _answers(observed, n)]
    leader = next(iter(healthy or members or carriers or list(control_plane_nodes))).name
    actions: dict[str, ControlPlaneAction] = {}
    for node in control_plane_nodes:
        if node.name == leader:
            actions[node.name] = "none" if cluster.initialised and members else "resume"
        else:
            actions[node.name] = "none" if node in members else "join"
    joining, stale, refusals = _arrivals(desired, observed, cluster, actions)
    return Choice(leader, actions, joining, stale), refusals


def _gone(desired: Desired, observed: Observed, node: Node) -> bool:
    """Whether what the cluster holds under a name is to be let go: proved, and nothing is there."""
    is_blank = node_states(desired.site, observed)[node.name].is_blank
    return node.name in desired.returning and is_blank


def _answers(observed: Observed, node: Node) -> bool:
    facts = observed.node_facts.get(node.name)
    return bool(facts and facts.at("kubernetes.api_healthz.ok"))


def _arrivals(
    desired: Desired,
    observed: Observed,
    cluster: Cluster,
    actions: Mapping[str, ControlPlaneAction],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Refusal, ...]]:
    """Return which workers join, which Node objects are stale, and machines to refuse."""
    joining, stale, refusals = [], [], []
    states = node_states(desired.site, observed)
    for node in desired.site.cluster_members:
        facts, known = observed.node_facts.get(node.name), cluster.nodes.get(node.name)
        if facts is None:
            continue
        blank, returns = states[node.name].is_blank, node.name in desired.returning
        evidence = FencingEvidence(
            node.name, known, facts, known.identity if known else MachineIdentity()
        )
        other = same_machine(evidence, replaces=returns and blank)
        if other:
            refusals.append(other)
            continue
        if blank and known:
            stale.append(node.name)
            if actions.get(node.name) == "none" and not returns:
                refusals.append(_lost_member(node.name))
            elif known.ready and not returns and not is_same(known.identity, evidence.seen):
                refusals.append(_two_machines(node.name))
        if CONTROL_PLANE not in node.groups and (blank or known is None):
            joining.append(node.name)
    stale = [name for name in stale if actions.get(name) != "resume"]
    return tuple(joining), tuple(stale), tuple(refusals)


def _lost_member(name: str) -> Refusal:
    return Refusal(
        name,
        "cluster",
        "an empty machine in place of a control-plane member that etcd still lists",
        "the member with its data, or a cluster without this member",
        f"join it as a new member: appliance node rejoin {name}",
    )


def _two_machines(name: str) -> Refusal:
    return Refusal(
        name,
        "identity",
        "an empty machine under the name of a node that is Ready in the cluster",
        "one machine for each name",
        f"find the machine that is Ready as {name} (kubectl get node {name} -o wide), or wait a "
        "minute until that Node is NotReady",
    )


def _choose_blind(
    desired: Desired, observed: Observed, cluster: Unreachable
) -> tuple[Choice, tuple[Refusal, ...]]:
    """The API does not answer: only a machine with the cluster's data may start it again."""
    control_plane_nodes = desired.site.control_plane
    carriers = [node.name for node in control_plane_nodes if node.name in cluster.kubeadm_state]
    leader = next(
        (name for name in carriers if observed.node_facts[name].at("kubernetes.etcd_data.present")),
        carriers[0] if carriers else control_plane_nodes[0].name,
    )
    actions: dict[str, ControlPlaneAction] = {node.name: "join" for node in control_plane_nodes}
    actions[leader] = "resume"
    refusals: tuple[Refusal, ...] = ()
    with_data = [
        name for name in carriers if observed.node_facts[name].at("kubernetes.etcd_data.present")
    ]
    if len(with_data) > 1 or not carriers:
        refusals = (
            Refusal(
                leader,
                "cluster",
                f"no answer from the Kubernetes API ({cluster.reason}), and etcd data on "
                f"{', '.join(with_data) or 'no reachable node'}",
                "an API that answers, or a single node with the cluster's data",
                "find out why etcd has no quorum: "
                + ssh_command(
                    desired.site,
                    desired.site.node(leader),
                    desired.release.runtime.listing("etcd"),
                ),
            ),
        )
    states = node_states(desired.site, observed)
    joining = tuple(n.name for n in desired.site.workers if states[n.name].is_blank)
    return Choice(leader, actions, joining), refusals
