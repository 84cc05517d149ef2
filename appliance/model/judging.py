"""What the post-conditions of steps come to: what is not so, what is done, what nobody can say.

What must not be here: what follows from it for a run (:mod:`appliance.model.planner`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appliance.model import photograph
from appliance.model.maintenance import away
from appliance.model.plan import Reason, Unknown, Unseen

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node
    from appliance.model.steps import Step


@dataclass(frozen=True)
class Settled:
    """The steps that nothing observed calls for, by what can be said of them."""

    satisfied: list[str] = field(default_factory=list)
    not_applicable: list[str] = field(default_factory=list)
    unseen: list[Unseen] = field(default_factory=list)

    def take(self, step: Step, desired: Desired, observed: Observed, only: frozenset[str]) -> None:
        """File a step; a node in maintenance is left alone, so no step waits for a look at it."""
        resting = away(observed.cluster).keys() - only
        names = [node.name for node in step.nodes(desired.site)]
        asked = [name for name in names if not only or name in only]
        seen = [name for name in asked if name in observed.photographs and name not in resting]
        missed = [name for name in asked if name not in seen and name not in resting]
        if not asked:
            self.not_applicable.append(step.name)
        elif missed or not seen:
            self.unseen.append(Unseen(step.name, tuple(missed or asked)))
        else:
            self.satisfied.append(step.name)


@dataclass(frozen=True)
class Judged:
    """What is not so of a step's post-condition, and what nobody can say."""

    reasons: tuple[Reason, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """One for each thing that keeps the step from being proved."""
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
    with_proof: bool = False,
) -> Judged:
    """What is not so yet of a step's post-condition, node by node; with its proof, if asked.

    Where a predicate asked for a fact that was not seen, what it says is a guess, and no reason.
    """
    asked = (step.unmet, step.proof if with_proof else None)
    reasons: list[Reason] = []
    unknown: list[Unknown] = []
    for node in in_scope(step, desired, observed, only):
        with photograph.watching() as missed:
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
    return Judged(tuple(reasons), tuple(dict.fromkeys(unknown)))


def _unknown(
    step: str, observed: Observed, missed: Sequence[photograph.Unseen]
) -> Iterator[Unknown]:
    for one in missed:
        names = (name for name, photo in observed.photographs.items() if photo is one.photograph)
        yield Unknown(next(names, "a node"), step, one.path, one.why)


def in_scope(
    step: Step, desired: Desired, observed: Observed, only: frozenset[str]
) -> tuple[Node, ...]:
    """The step's nodes that were seen: those named, else all that are not in maintenance."""
    resting = away(observed.cluster)
    return tuple(
        node
        for node in step.nodes(desired.site)
        if node.name in observed.photographs
        and (node.name in only if only else node.name not in resting)
    )
