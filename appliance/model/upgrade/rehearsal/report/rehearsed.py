"""One run of an upgrade in a lab that is like a site, as it is written down for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field

from appliance.model.documents.typed_json import Line, RunId, read_typed
from appliance.model.upgrade.moves.steps import UpgradeStep
from appliance.model.upgrade.plan import UpgradePlan
from appliance.model.upgrade.points.gate import Gate
from appliance.model.upgrade.window import Clock, Estimate

SCHEMA: Final = 1
MOST_BYTES: Final = 4 << 20
Seconds = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class PlannedStep:
    """A step as it was planned.

    Attributes:
        forecast: how long it was to take, in words.
        back: whether there is a way back, and which.
    """

    title: str
    release: Line
    nodes: tuple[Line, ...]
    why: tuple[str, ...]
    disturbs: str
    forecast: str
    back: str


@dataclass(frozen=True)
class Judged:
    """One point of the list that is judged before the first change."""

    name: Line
    node: str
    verdict: Line
    found: str
    expected: str


@dataclass(frozen=True)
class ApiGap:
    """A time without an answer of the API.

    Attributes:
        after_seconds: from the beginning of the run.
        seconds: from the last answer before to the first one after.
    """

    after_seconds: Seconds
    seconds: Seconds


@dataclass(frozen=True)
class ApiWatched:
    """How the API answered during a run.

    Attributes:
        asked: how often it was asked; 0: it could not be asked from this machine.
        lost: how often no answer came.
    """

    asked: int = 0
    lost: int = 0
    gaps: tuple[ApiGap, ...] = ()

    @property
    def longest(self) -> float:
        """The longest time without an answer, in seconds."""
        return max((gap.seconds for gap in self.gaps), default=0.0)

    def sentence(self) -> str:
        """In words."""
        if not self.asked:
            return "not measured: the API could not be asked from this machine"
        total = sum(gap.seconds for gap in self.gaps)
        return (
            f"{self.lost} of {self.asked} requests got no answer; away {len(self.gaps)} times, "
            f"{total:.1f} s in all, {self.longest:.1f} s in one piece"
        )


@dataclass(frozen=True)
class RehearsedRun:
    """One run of the command.

    Attributes:
        run: its id; the journal has its steps under the same id.
        to: the release that was asked for.
        took_seconds: from its plan to its end.
        outcome: how it ended, in words.
        path: the releases on the way.
        accepted: names of settings whose loss was accepted.
        window: the forecast of the whole, in words.
        site_window: the same for the site, by its own journal.
    """

    run: RunId
    started: Line
    to: Line
    outcome: str
    took_seconds: Seconds = 0.0
    path: tuple[Line, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    gates: tuple[Judged, ...] = ()
    accepted: tuple[Line, ...] = ()
    window: str = ""
    site_window: str = ""
    api: ApiWatched = field(default_factory=ApiWatched)

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"schema": SCHEMA, **asdict(self)}


def read_rehearsed(content: str | bytes) -> RehearsedRun:
    """Read what was written down of a run.

    Raises:
        NewerSchema: a later version wrote it.
        Unreadable: it is no such document.
    """
    return read_typed(content, RehearsedRun, newest_schema=SCHEMA, most_bytes=MOST_BYTES)


def planned_steps(plan: UpgradePlan, clock: Clock) -> tuple[PlannedStep, ...]:
    """The steps of a plan, as the report shows them."""
    return tuple(_planned(step, clock.of_step(step)) for step in (*plan.steps, *plan.rest))


def _planned(step: UpgradeStep, takes: Estimate) -> PlannedStep:
    return PlannedStep(
        step.title,
        step.release,
        tuple(step.nodes),
        tuple(step.why),
        step.disturbs,
        takes.sentence(),
        step.back,
    )


def judged(gates: Sequence[Gate]) -> tuple[Judged, ...]:
    """The points that were judged."""
    return tuple(Judged(g.name, g.node, g.verdict, g.found, g.expected) for g in gates)
