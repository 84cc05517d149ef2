"""Whether the plan of a maintenance, or of its end, is still the one that was shown.

What must not be here: making the plan (that is its workflow's), or when an answer is late
(:mod:`appliance.workflows.session.confirmation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appliance.workflows.session.confirmation import differing, require_same_plan

if TYPE_CHECKING:
    from appliance.model.node.answering import AnsweringMachine
    from appliance.model.node.bmc.fence import Fence
    from appliance.model.node.drain import Forecast
    from appliance.model.state.facts.hardware import Difference
    from appliance.model.state.journal import Run
    from appliance.model.state.nodes.maintenance import Maintenance


@dataclass(frozen=True)
class Shown:
    """What a person was shown of a node, as lines.

    Attributes:
        exact: must be the same again.
        losses: what it is about -> its line; none may come, one that is gone is no reason to stop.
    """

    exact: tuple[str, ...]
    losses: Mapping[str, str] = field(default_factory=dict)

    def require(self, now: Shown, run: Run) -> None:
        """Stop where the new plan is another one.

        Raises:
            Refused: names the differences; nothing was changed.
        """
        new = (line for about, line in now.losses.items() if about not in self.losses)
        require_same_plan(
            run,
            (
                *differing(self.exact, now.exact),
                *(f"only in the new plan: {line}" for line in new),
            ),
        )


def shown_maintenance(
    foreseen: Forecast,
    mark: Maintenance | None,
    machine: AnsweringMachine,
    fence: Fence | None = None,
) -> Shown:
    """What counts of the forecast: pods that only move, and budgets that wait, do not.

    What a pod of a workload loses was agreed to for each pod of it: another one in its place, with
    another name, is nothing new.
    """
    concerns = (*foreseen.by("refuses"), *foreseen.by("loses"), *foreseen.by("interrupts"))
    losses = {
        f"{concern.workload}: {concern.text}" if concern.workload else line: line
        for concern in concerns
        if not concern.moves and (line := concern.sentence())
    }
    ended = [f"{pod.where}: ends with the taint" for pod in foreseen.ended_by_taint]
    cut = [fence.sentence()] if fence is not None and fence.is_ordered else []
    new = {line: line for line in (*ended, *cut)}
    return Shown((*_marked(mark), machine.claim), {**losses, **new})


def shown_return(
    mark: Maintenance | None, differences: Sequence[Difference], machine: AnsweringMachine
) -> Shown:
    """What stands on the node, and what is not as it was."""
    said = (f"{machine.node}: {difference.sentence()}" for difference in differences)
    return Shown((*_marked(mark), *said, machine.claim))


def _marked(mark: Maintenance | None) -> tuple[str, ...]:
    if mark is None:
        return ()
    return (f"in maintenance by {mark.by} since {mark.since}, phase {mark.phase}, run {mark.run}",)
