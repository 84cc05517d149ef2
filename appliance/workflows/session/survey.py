"""Look at a site: one probe round and one read of the API, shared by plan, status and install."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import LeftOut, NodeUnreachable, PreflightFailed
from appliance.model.plan.left_out import asked_for, not_joined
from appliance.model.plan.planner import EVERYTHING, Scope, plan
from appliance.model.site.settings import Node, Site
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.node_state import in_maintenance
from appliance.model.state.nodes.unreachable import Group, grouped, headline
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import Plan, Refusal, UnknownFact

if TYPE_CHECKING:
    from appliance.model.checks.preflight import Finding
    from appliance.workflows.session.ports import ClusterReader, Nodes

TOLD = (False, False, 0)
# How often a node is looked at that was too busy to tell all.
LOOKS = 2
Preflight = Callable[["Desired", Mapping[str, "NodeFacts"], Observed], Sequence["Finding"]]


@dataclass(frozen=True)
class Survey:
    """The observed state and the resulting plan."""

    observed: Observed
    plan: Plan


def observe(site: Site, nodes: Nodes, cluster: ClusterReader) -> tuple[Observed, Look]:
    """Read every node and the API; nodes that do not answer are in the Look."""
    look = look_patiently(nodes, site.nodes)
    return Observed(look.node_facts, cluster.read(look.node_facts), look.faults), look


def look_patiently(nodes: Nodes, asked: Sequence[Node]) -> Look:
    """Inspect nodes, and again those that were too busy; one late answer is not a fault."""
    look = nodes.look(asked)
    for _ in range(LOOKS - 1):
        late = {name for name, facts in look.node_facts.items() if _untold(facts) > TOLD}
        if not late:
            break
        again = nodes.look([node for node in asked if node.name in late])
        told = {
            name: facts
            for name, facts in again.node_facts.items()
            if _untold(facts) <= _untold(look.node_facts[name])
        }
        look = Look({**look.node_facts, **told}, look.faults)
    return look


def _untold(facts: NodeFacts) -> tuple[bool, bool, int]:
    """How much a node was too busy to tell: what counts most comes first."""
    late = len(facts.late) + len(facts.at("unseen") or ())
    return facts.kubernetes_untold, bool(facts.docker_silence), late


def require_all(look: Look, in_maintenance: Collection[str] = ()) -> None:
    """Refuse to go on when a node could not be read, unless it is in maintenance.

    Raises:
        NodeUnreachable: counts and names every such node, by cause; a node that was too busy to
            tell whether it is a member is one.
    """
    faults = [fault for fault in look.faults if fault.node not in in_maintenance]
    if faults:
        first, *others = grouped(faults)
        asked = len(look.node_facts) + len(look.faults)
        raise NodeUnreachable(
            headline(faults, asked),
            hint=first.hint,
            details=[
                *(_names(first, alone=not others) if len(faults) > 1 else ()),
                *(f"{group.sentence}  hint: {group.hint}" for group in others),
            ],
        )
    require_evidence(look.node_facts)


def _names(group: Group, *, alone: bool) -> tuple[str, ...]:
    """The nodes of the first cause; its words are in the headline already, if it is alone."""
    return (f"nodes: {', '.join(group.nodes)}" if alone else group.sentence,)


def require_evidence(node_facts: Mapping[str, NodeFacts]) -> None:
    """Refuse to judge nodes whose probe did not report the state of Kubernetes and Docker.

    Without the Kubernetes state a member looks bare, and its cluster looks gone. Without the
    Docker state Docker would be reconfigured under running pods.

    Raises:
        NodeUnreachable: names every such node.
    """
    late = {name: what for name, facts in node_facts.items() if (what := _missed(facts))}
    if late:
        (first, what), *others = late.items()
        raise NodeUnreachable(
            f"{first}: the probe timed out before it read {what}",
            hint="the node is very busy: check its load (uptime), then run the same command again",
            details=[f"{name}: the probe timed out before it read {what}" for name, what in others],
        )


def _missed(facts: NodeFacts) -> str:
    """The required facts that the probe did not read in time; empty if it read all."""
    if facts.kubernetes_untold:
        return "the Kubernetes state"
    return "the Docker state" if facts.docker_untold else ""


def survey(
    desired: Desired,
    nodes: Nodes,
    cluster: ClusterReader,
    preflight: Preflight,
    scope: Scope = EVERYTHING,
) -> Survey:
    """Observe everything and plan; workers that do not answer and have not joined are left out.

    Raises:
        NodeUnreachable: another node could not be reached, or did not report a fact that a step
            needs; nothing was changed.
    """
    observed, _ = observe(desired.site, nodes, cluster)
    return survey_of(observed, desired, preflight, scope)


def survey_of(
    observed: Observed, desired: Desired, preflight: Preflight, scope: Scope = EVERYTHING
) -> Survey:
    """The same, of a look that was taken just now.

    Raises:
        NodeUnreachable: as of :func:`survey`.
    """
    site, look = desired.site, Look(observed.node_facts, observed.faults)
    waiting = not_joined(site, observed.cluster, look.faults, scope)
    spared = in_maintenance(site, observed) - scope.nodes
    require_all(look, spared | {fault.node for fault in waiting})
    findings = preflight(desired, observed.node_facts, observed)
    made = plan(desired, observed, findings, scope)
    # A certain refusal comes first: a person has to fix it anyway.
    if not made.refusals:
        require_seen(made.unknown)
    return Survey(observed, replace(made, left_out=asked_for(site, waiting, scope)))


def require_seen(unknown: Sequence[UnknownFact]) -> None:
    """Refuse to act on unknown facts.

    Raises:
        NodeUnreachable: names each node, the fact, and the program that did not report it.
    """
    if unknown:
        first, *others = unknown
        raise NodeUnreachable(
            first.sentence(), hint=first.hint, details=[one.sentence() for one in others]
        )


def require_none_left_out(made: Plan) -> None:
    """Fail at the end of a command that left nodes out.

    Raises:
        LeftOut: names each worker that was left out.
    """
    if made.left_out:
        first, *others = made.left_out
        raise LeftOut(
            f"incomplete, a node was left out: {first.reason}",
            hint=f"{first.hint}; when the node answers: appliance install",
            details=[f"left out: {fault.reason}  hint: {fault.hint}" for fault in others],
        )


def refuse(refusals: Sequence[Refusal]) -> None:
    """Stop before the first change.

    Raises:
        PreflightFailed: with one line for each refusal.
    """
    if refusals:
        first, *others = refusals
        raise PreflightFailed(
            first.sentence(),
            hint=first.hint,
            details=[f"{refusal.sentence()}  hint: {refusal.hint}" for refusal in others],
        )
