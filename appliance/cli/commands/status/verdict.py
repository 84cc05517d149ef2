"""The last line of ``status``: is it well, and if not, what is the next command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from appliance.cli.commands.status.view import faults_of
from appliance.model.state.nodes.node_state import in_maintenance
from appliance.model.state.nodes.unreachable import grouped

if TYPE_CHECKING:
    from appliance.model.state.findings import Finding
    from appliance.workflows.status import StatusResult

Word = Literal["healthy", "faults", "unknown"]
# How many faults the line names; the JSON has all of them.
FEW = 2


@dataclass(frozen=True)
class Verdict:
    """Whether an appliance is as its site describes it.

    Attributes:
        faults: a sentence for each fault, with its node; planned maintenance is none.
        unknown: a sentence for each fact that could not be read.
        next: the next command, or what to do; empty where nothing is to be done.
    """

    faults: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    next: str = ""

    @property
    def word(self) -> Word:
        """The verdict in one word, for programs."""
        return "faults" if self.faults else "unknown" if self.unknown else "healthy"

    def sentence(self) -> str:
        """The verdict in one line."""
        if not self.faults and not self.unknown:
            return "healthy"
        if not self.faults:
            count = _counted(len(self.unknown), "fact is unknown", "facts are unknown")
            return f"not fully checked: {count}: {_first(self.unknown)}; next: {self.next}"
        count = _counted(len(self.faults), "fault", "faults")
        return f"{count}: {_first(self.faults)}; next: {self.next}"


def verdict_of(found: StatusResult) -> Verdict:
    """The verdict on what was seen."""
    faults = (
        *faults_of(found.desired.site, found.look, found.plan, found.observed),
        *(f"{doubt.node}: {doubt.text}" for doubt in found.doubts),
        *(f"{one.node}: {one.seen}" for one in _failed_timers(found)),
    )
    unknown = tuple(one.sentence() for one in found.plan.unknown)
    return Verdict(faults, unknown, _next(found, faults, unknown))


def _next(found: StatusResult, faults: Sequence[str], unknown: Sequence[str]) -> str:
    planned = in_maintenance(found.desired.site, found.observed)
    silent = grouped([fault for fault in found.look.faults if fault.node not in planned])
    if silent:
        return silent[0].hint
    failed = _failed_timers(found)
    if faults and len(failed) == len(faults):
        return failed[0].hint
    if faults:
        return "appliance plan"
    return "appliance status" if unknown else ""


def _failed_timers(found: StatusResult) -> list[Finding]:
    return [one for one in found.timer_findings if one.severity == "error"]


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _first(sentences: Sequence[str]) -> str:
    more = f"; {len(sentences) - FEW} more" if len(sentences) > FEW else ""
    return "; ".join(sentences[:FEW]) + more
