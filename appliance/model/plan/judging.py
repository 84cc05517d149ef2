"""Judge the post-conditions of steps: unmet, satisfied, or unknown.

What must not be here: the consequences for a run (:mod:`appliance.model.plan.planner`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import NoCluster, Unreachable
from appliance.model.state.facts import facts
from appliance.model.state.nodes.node_state import in_maintenance
from appliance.model.state.plan import Reason, UnknownFact, UnseenStep

if TYPE_CHECKING:
    from appliance.model.components.base.component import Step
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed


@dataclass(frozen=True)
class SettledSteps:
    """The steps without a reason to run, sorted by what is known about them."""

    satisfied: list[str] = field(default_factory=list)
    not_applicable: list[str] = field(default_factory=list)
    unseen: list[UnseenStep] = field(default_factory=list)

    def take(self, step: Step, desired: Desired, observed: Observed, only: frozenset[str]) -> None:
        """File a step; a node in maintenance is left alone, so no step waits for a look at it.

        Where the API did not answer, nobody observed what a step writes to it.
        """
        spared = in_maintenance(desired.site, observed) - only
        names = [node.name for node in step.nodes(desired.site)]
        asked = [name for name in names if not only or name in only]
        seen = [name for name in asked if name in observed.node_facts and name not in spared]
        missed = [name for name in asked if name not in observed.node_facts and name not in spared]
        of_api = bool(step.writes)
        if step.asked is not None and not step.asked(desired.site):
            asked = []
        if not asked or (of_api and isinstance(observed.cluster, NoCluster)):
            self.not_applicable.append(step.name)
        elif of_api and isinstance(observed.cluster, Unreachable):
            self.unseen.append(UnseenStep(step.name, tuple(asked)))
        elif missed or not seen:
            self.unseen.append(UnseenStep(step.name, tuple(missed or asked)))
        else:
            self.satisfied.append(step.name)


@dataclass(frozen=True)
class Judgement:
    """What is unmet of a step's post-condition, and what is unknown."""

    reasons: tuple[Reason, ...] = ()
    unknown: tuple[UnknownFact, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence for each thing that keeps the step from being verified."""
        return (
            *(f"{reason.node}: {reason.text}" for reason in self.reasons),
            *(unknown.sentence() for unknown in self.unknown),
        )


def judge(
    step: Step,
    desired: Desired,
    observed: Observed,
    only: frozenset[str] = frozenset(),
    *,
    with_tests: bool = False,
) -> Judgement:
    """Return what is unmet of a step's post-condition (and of its pod tests), node by node.

    Where a predicate needed a fact that is unknown, its result is a guess and no reason.
    """
    asked = (step.unmet, step.untested if with_tests else None)
    reasons: list[Reason] = []
    unknown: list[UnknownFact] = []
    for node in in_scope(step, desired, observed, only):
        with facts.watching() as missed:
            found = [
                Reason(node.name, text)
                for predicate in asked
                if predicate is not None
                for text in predicate(node, desired, observed)
            ]
        if missed:
            unknown += _unknown(step.name, observed, missed)
        else:
            reasons += found
    return Judgement(tuple(reasons), tuple(dict.fromkeys(unknown)))


def reasons_of_others(
    step: Step, desired: Desired, observed: Observed, joining: frozenset[str]
) -> tuple[Reason, ...]:
    """Return what the other nodes lack of a step because of nodes that join.

    A node that does not tell what it has waits for the next install: it must not delay the others.
    """
    if step.unmet_of_others is None or not joining:
        return ()
    new = [node for node in desired.site.nodes if node.name in joining]
    reasons: list[Reason] = []
    for node in in_scope(step, desired, observed, frozenset()):
        if node.name in joining:
            continue
        with facts.watching() as missed:
            found = [*step.unmet_of_others(new, node, desired, observed)]
        if not missed:
            reasons += (Reason(node.name, text) for text in found)
    return tuple(reasons)


def _unknown(
    step: str, observed: Observed, missed: Sequence[facts.UnseenFact]
) -> Iterator[UnknownFact]:
    for one in missed:
        names = (name for name, facts in observed.node_facts.items() if facts is one.facts)
        yield UnknownFact(next(names, "a node"), step, one.path, one.why)


def in_scope(
    step: Step, desired: Desired, observed: Observed, only: frozenset[str]
) -> tuple[Node, ...]:
    """The step's nodes that were seen: those named, else all that are not in maintenance."""
    spared = in_maintenance(desired.site, observed)
    return tuple(
        node
        for node in step.nodes(desired.site)
        if node.name in observed.node_facts
        and (node.name in only if only else node.name not in spared)
    )
