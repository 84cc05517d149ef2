"""``plan(desired, observed) -> Plan``: no I/O, no clock, no memory of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model.cluster import Cluster, NoCluster, Unreachable
from appliance.model.departure import Witness, same_machine
from appliance.model.desired import Desired
from appliance.model.groups import CONTROL_PLANE
from appliance.model.judging import Settled, in_scope, judge
from appliance.model.machine_identity import MachineIdentity, is_same
from appliance.model.maintenance import away
from appliance.model.maintenance_claims import Claim, claims_of
from appliance.model.plan import (
    Choice,
    ControlPlaneAction,
    Notice,
    Plan,
    PlannedStep,
    Reason,
    Refusal,
    Unknown,
)
from appliance.model.postconditions import Observed
from appliance.model.second_cluster import orphans, second_cluster
from appliance.model.ssh_command import ssh_command
from appliance.model.steps import INSTALL, Step
from appliance.model.traces import is_member

if TYPE_CHECKING:
    from appliance.model.preflight import Finding
    from appliance.model.site import Node


@dataclass(frozen=True)
class Scope:
    """Which part of an install is asked for.

    Attributes:
        only: this step alone; or None.
        until: up to and including this step; or None.
        nodes: these nodes alone; empty means all.
        again: with ``only``: the step runs also where its outcome is observed.
    """

    only: str | None = None
    until: str | None = None
    nodes: frozenset[str] = frozenset()
    again: bool = False

    def steps(self) -> tuple[Step, ...]:
        """The steps in scope, in order."""
        if self.only:
            return tuple(step for step in INSTALL if step.name == self.only)
        names = [step.name for step in INSTALL]
        end = names.index(self.until) + 1 if self.until else len(names)
        return INSTALL[:end]


EVERYTHING = Scope()
# The reason of a step that nothing observed calls for.
AGAIN = "asked for again"


def plan(
    desired: Desired,
    observed: Observed,
    findings: Sequence[Finding] = (),
    scope: Scope = EVERYTHING,
) -> Plan:
    """What must be done to make ``observed`` what is ``desired``, and what forbids it.

    Args:
        desired: site, release and bundle.
        observed: photographs of every node, and the cluster's state.
        findings: what preflight has to say of the same photographs; errors become refusals when
            there is something to do, warnings stay warnings.
        scope: the part of the install that is asked for.
    """
    resting = away(observed.cluster).keys() - scope.nodes
    findings = [f for f in findings if f.of_site or f.node not in resting]
    not_judged = [finding for finding in findings if finding.severity == "unseen"]
    choice, refusals = choose(desired, observed)
    settled = Settled()
    steps: list[PlannedStep] = []
    unknown: list[Unknown] = []
    for step in scope.steps():
        judged = judge(step, desired, observed, scope.nodes, with_proof=True)
        reasons = judged.reasons
        unknown += judged.unknown
        if scope.again and scope.only and not step.by_port:
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
    claims = [claim for claim in claims_of(observed.cluster) if claim.node in resting]
    warnings = [Notice(claim.node, _left_alone(claim)) for claim in claims]
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


def _not_judged(finding: Finding) -> Unknown:
    return Unknown(finding.node, finding.check, str(finding.expected), str(finding.seen))


def _again(
    step: Step,
    reasons: tuple[Reason, ...],
    desired: Desired,
    observed: Observed,
    only: frozenset[str],
) -> tuple[Reason, ...]:
    """The reasons for a step, and one for each node on which nothing calls for it."""
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
    return f"in maintenance{by}, so it is left alone until: appliance node return {claim.node}"


def _forbids(finding: Finding, steps: Sequence[PlannedStep]) -> bool:
    """Whether an error is one of what is planned."""
    return not finding.step or any(step.name == finding.step for step in steps)


def _forbidden(
    scope: Scope, steps: Sequence[PlannedStep], desired: Desired, observed: Observed
) -> tuple[Refusal, ...]:
    """What forbids a planned step, as far as it can be known before the steps that it needs."""
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
    resting = away(observed.cluster)
    nodes = tuple(
        node.name
        for node in step.nodes(desired.site)
        if node.name in in_need
        or (
            step.together
            and node.name in observed.photographs
            and (node.name in only if only else node.name not in resting)
        )
    )
    members = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    disturbs = step.disturbs and any(name in members for name in nodes)
    return PlannedStep(step.name, nodes, reasons, (step.disturbs,) if disturbs else ())


def _with_preflight(
    scope: Scope, desired: Desired, observed: Observed, steps: list[PlannedStep]
) -> list[PlannedStep]:
    """Put the look before the change: on every node there is, whenever anything is changed."""
    first = next((step for step in scope.steps() if step.unmet is None), None)
    if first is None or not (steps or scope.only == first.name):
        return steps
    seen = observed.photographs
    nodes = tuple(node.name for node in first.nodes(desired.site) if node.name in seen)
    if not nodes:
        return steps
    reason = Reason(nodes[0], "looks before anything is changed, and changes nothing")
    return [PlannedStep(first.name, nodes, (reason,)), *steps]


def choose(desired: Desired, observed: Observed) -> tuple[Choice, tuple[Refusal, ...]]:
    """Pick the leader from the members observed, and say what kubeadm is to do where."""
    cluster, masters = observed.cluster, desired.site.control_plane
    if isinstance(cluster, NoCluster):
        leader = masters[0].name
        actions: dict[str, ControlPlaneAction] = {node.name: "join" for node in masters}
        actions[leader] = "init"
        workers = (node.name for node in desired.site.workers)
        joining = tuple(name for name in workers if name in observed.photographs)
        return Choice(leader, actions, joining), orphans(desired, observed)
    if isinstance(cluster, Unreachable):
        return _choose_blind(desired, observed, cluster)
    return _choose_in_cluster(desired, observed, cluster)


def _choose_in_cluster(
    desired: Desired, observed: Observed, cluster: Cluster
) -> tuple[Choice, tuple[Refusal, ...]]:
    masters = desired.site.control_plane
    members = [
        node
        for node in masters
        if (found := cluster.nodes.get(node.name)) is not None
        and found.control_plane
        and not _gone(desired, observed, node)
    ]
    healthy = [node for node in members if _answers(observed, node)]
    carriers = [n for n in masters if _answers(observed, n)]
    leader = next(iter(healthy or members or carriers or list(masters))).name
    actions: dict[str, ControlPlaneAction] = {}
    for node in masters:
        if node.name == leader:
            actions[node.name] = "none" if cluster.initialised and members else "resume"
        else:
            actions[node.name] = "none" if node in members else "join"
    joining, stale, refusals = _arrivals(desired, observed, cluster, actions)
    return Choice(leader, actions, joining, stale), refusals


def _gone(desired: Desired, observed: Observed, node: Node) -> bool:
    """Whether what the cluster holds under a name is to be let go: proved, and nothing is there."""
    photo = observed.photographs.get(node.name)
    return node.name in desired.returning and photo is not None and not is_member(photo)


def _answers(observed: Observed, node: Node) -> bool:
    photo = observed.photographs.get(node.name)
    return bool(photo and photo.at("kubernetes.api_healthz.ok"))


def _arrivals(
    desired: Desired,
    observed: Observed,
    cluster: Cluster,
    actions: Mapping[str, ControlPlaneAction],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Refusal, ...]]:
    """Who must join; whose old Node object is proved stale; who is not who the cluster knows."""
    joining, stale, refusals = [], [], []
    for node in desired.site.cluster_members:
        photo, known = observed.photographs.get(node.name), cluster.nodes.get(node.name)
        if photo is None:
            continue
        blank, returns = not is_member(photo), node.name in desired.returning
        witness = Witness(node.name, known, photo, known.identity if known else MachineIdentity())
        other = same_machine(witness, replaces=returns and blank)
        if other:
            refusals.append(other)
            continue
        if blank and known:
            stale.append(node.name)
            if actions.get(node.name) == "none" and not returns:
                refusals.append(_lost_member(node.name))
            elif known.ready and not returns and not is_same(known.identity, witness.seen):
                refusals.append(_two_machines(node.name))
        if CONTROL_PLANE not in node.groups and (blank or known is None):
            joining.append(node.name)
    stale = [name for name in stale if actions.get(name) != "resume"]
    return tuple(joining), tuple(stale), tuple(refusals)


def _lost_member(name: str) -> Refusal:
    return Refusal(
        name,
        "cluster",
        "an empty machine in the place of a control-plane member, which etcd still counts",
        "the member with its data, or a cluster that has let it go",
        f"let it join as a new one: appliance node rejoin {name}",
    )


def _two_machines(name: str) -> Refusal:
    return Refusal(
        name,
        "identity",
        "an empty machine under the name of a node that is Ready in the cluster",
        "one machine a name",
        f"find the machine that is Ready as {name} (kubectl get node {name} -o wide), or wait a "
        "minute until the API notices that it is gone",
    )


def _choose_blind(
    desired: Desired, observed: Observed, cluster: Unreachable
) -> tuple[Choice, tuple[Refusal, ...]]:
    """The API is silent: only a machine that carries the cluster may start it again."""
    masters = desired.site.control_plane
    carriers = [node.name for node in masters if node.name in cluster.traces]
    leader = next(
        (
            name
            for name in carriers
            if observed.photographs[name].at("kubernetes.etcd_data.present")
        ),
        carriers[0] if carriers else masters[0].name,
    )
    actions: dict[str, ControlPlaneAction] = {node.name: "join" for node in masters}
    actions[leader] = "resume"
    refusals: tuple[Refusal, ...] = ()
    with_data = [
        name for name in carriers if observed.photographs[name].at("kubernetes.etcd_data.present")
    ]
    if len(with_data) > 1 or not carriers:
        refusals = (
            Refusal(
                leader,
                "cluster",
                f"an API that does not answer ({cluster.reason}), etcd data on "
                f"{', '.join(with_data) or 'no node seen'}",
                "an API that answers, or a single node that carries the cluster",
                "see why etcd has no quorum: "
                + ssh_command(
                    desired.site, desired.site.node(leader), "sudo docker ps -a --filter name=etcd"
                ),
            ),
        )
    joining = tuple(
        n.name
        for n in desired.site.workers
        if n.name in observed.photographs and not is_member(observed.photographs[n.name])
    )
    return Choice(leader, actions, joining), refusals
