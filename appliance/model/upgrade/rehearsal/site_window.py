"""How long the upgrade will take on the site itself: by its own journal, for all of its nodes.

A lab has one worker of each kind, so its own time says little of the whole window. What must not be
here: the time that the lab took (:mod:`appliance.model.upgrade.rehearsal.report`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final

from pydantic import Field

from appliance.model.documents.typed_json import Line
from appliance.model.state.journal import Record
from appliance.model.upgrade.moves.steps import OUT, UpgradeStep
from appliance.model.upgrade.plan import UpgradePlan
from appliance.model.upgrade.window import (
    EACH,
    IMAGES,
    NAMES,
    NOTHING,
    Clock,
    Estimate,
)

STEPS: Final = frozenset({"artifacts", IMAGES, *NAMES.values(), *EACH})
# The newest of them: an older time is of another release.
MOST: Final = 1000


@dataclass(frozen=True)
class Took:
    """One verified step of the site's journal, without who did it."""

    step: Line
    nodes: tuple[Line, ...]
    seconds: Annotated[float, Field(ge=0)]


def taken(records: Iterable[Record]) -> tuple[Took, ...]:
    """What the journal tells of steps that an upgrade has, the oldest first."""
    found = [
        Took(one.step, one.nodes, one.took_seconds)
        for one in records
        if one.outcome == "verified" and one.step in STEPS
    ]
    return tuple(found[-MOST:])


def site_window(
    plan: UpgradePlan,
    stands_for: Mapping[str, tuple[str, ...]],
    took: Iterable[Took],
    measured: Mapping[str, Mapping[str, float]],
) -> Estimate:
    """The forecast of the same steps on the site, its workers one after the other.

    Args:
        plan: of the lab.
        stands_for: node of the lab -> the nodes of the site that are not in the lab.
        took: of the site's journal.
        measured: release -> part of an upgrade to it -> seconds.
    """
    clock = Clock([_record(one) for one in took], measured)
    steps = (step for one in (*plan.steps, *plan.rest) for step in _on_the_site(one, stands_for))
    return sum((clock.of_step(step) for step in steps), NOTHING)


def _on_the_site(
    step: UpgradeStep, stands_for: Mapping[str, tuple[str, ...]]
) -> Iterator[UpgradeStep]:
    if step.kind not in OUT:
        yield step
        return
    for name in step.nodes:
        yield from (replace(step, nodes=(one,)) for one in (name, *stands_for.get(name, ())))


def _record(one: Took) -> Record:
    return Record(
        run="",
        sequence=1,
        command="cluster upgrade",
        step=one.step,
        nodes=one.nodes,
        why=(),
        started="",
        took_seconds=one.seconds,
        outcome="verified",
        operator="",
    )
