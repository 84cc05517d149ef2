"""How long a patch will take, by this site's own journal; nothing was measured elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from appliance.model.upgrade.window import EACH, NOTHING, Estimate, longest

if TYPE_CHECKING:
    from appliance.model.patch.plan import PatchPlan, PatchStep
    from appliance.model.state.journal import Record

PACKAGES: Final = "patch: packages"


@dataclass(frozen=True)
class Durations:
    """What this site's journal knows of durations."""

    records: Sequence[Record] = ()

    def of_step(self, step: PatchStep) -> Estimate:
        """How long a step takes; a batch is emptied, patched and tested at once."""
        if step.kind == "artifacts":
            return self._one("artifacts", ())
        found = [self._one(PACKAGES, step.nodes)]
        found += [longest(self._one(name, (node,)) for node in step.nodes) for name in EACH]
        return sum(found, NOTHING)

    def of_plan(self, plan: PatchPlan) -> Estimate:
        """How long the whole run takes."""
        return sum((self.of_step(step) for step in plan.steps), NOTHING)

    def _one(self, name: str, nodes: Sequence[str]) -> Estimate:
        verified = [one for one in self.records if (one.step, one.outcome) == (name, "verified")]
        own = [one for one in verified if set(nodes) & set(one.nodes)]
        took = [one.took_seconds for one in own or verified]
        if not took:
            return Estimate(0.0, 0.0, "unknown")
        return Estimate(median(took), max(took), "journal", repeated=len(took) > 1)
