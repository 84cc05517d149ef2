"""How long an upgrade will take: by this site's own journal, else as its release was measured.

What must not be here: reading the journal, or how the forecast is printed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from appliance.model.upgrade.moves.steps import OUT

if TYPE_CHECKING:
    from appliance.model.state.journal import Record
    from appliance.model.upgrade.moves.steps import UpgradeStep
    from appliance.model.upgrade.plan import UpgradePlan

IMAGES: Final = "kubernetes_images"
CONTROL_PLANE: Final = "upgrade: control plane"
KUBELET: Final = "upgrade: kubelet"
RUNTIME: Final = "upgrade: runtime"
# Kind of a step -> its name in journal and measurements, where that is another.
NAMES: Final = {"control_plane": CONTROL_PLANE, "nodes": KUBELET, "runtime": RUNTIME}
# Kind of a step that stops the API of the only control-plane node -> the name of the longest time
# without API in measurements.
API_AWAY: Final = {
    "control_plane": "api away",
    "runtime": "api away: runtime",
    "nodes": "api away: kubelet",
}
# Likewise of any such step where others answer meanwhile, behind the endpoint of the API.
API_MOVES: Final = "api away: several control planes"
# Of nodes that go out of service and come back: a batch as long as the slowest of its nodes.
EACH: Final = ("maintain: evict", "return: test")

Source = Literal["journal", "release", "unknown"]
_SURENESS: Final[tuple[Source, ...]] = ("unknown", "release", "journal")


@dataclass(frozen=True)
class Estimate:
    """How long something takes, in seconds.

    Attributes:
        source: where it is from: this site's journal, the release's measurements, or nowhere.
        repeated: each of its parts was measured more than once, so that ``worst`` says something.
    """

    median: float
    worst: float
    source: Source
    repeated: bool = False

    def __add__(self, other: Estimate) -> Estimate:
        source = min(self.source, other.source, key=_SURENESS.index)
        repeated = self.repeated and other.repeated
        return Estimate(self.median + other.median, self.worst + other.worst, source, repeated)

    def sentence(self) -> str:
        """In words, with where it is from; one measurement alone knows no worst case."""
        if self.source == "unknown":
            return "nobody has measured it"
        usual = _words(self.median)
        if self.source == "release":
            return f"about {usual} (measured once, in a lab; a rack may take longer)"
        if not self.repeated:
            whose = "by this site's journal, with a single measurement"
            return f"about {usual} ({whose}; it may take longer)"
        return f"{usual}, at worst {_words(self.worst)} (by this site's journal)"


def longest(found: Iterable[Estimate]) -> Estimate:
    """How long the slowest of several takes that begin together; as sure as the least sure."""
    several = tuple(found)
    source = min((one.source for one in several), key=_SURENESS.index)
    worst = max(one.worst for one in several)
    repeated = all(one.repeated for one in several)
    return Estimate(max(one.median for one in several), worst, source, repeated)


NOTHING: Final = Estimate(0.0, 0.0, "journal", repeated=True)


def _words(seconds: float) -> str:
    if 0 < seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@dataclass(frozen=True)
class Clock:
    """What is known of durations.

    Attributes:
        records: of this site's journal.
        measured: release -> step -> seconds.
    """

    records: Sequence[Record]
    measured: Mapping[str, Mapping[str, float]]

    def of_step(self, step: UpgradeStep) -> Estimate:
        """How long a step takes."""
        return sum(self._parts(step), NOTHING)

    def of_plan(self, plan: UpgradePlan) -> Estimate:
        """How long the steps of a run take."""
        return sum((self.of_step(step) for step in plan.steps), NOTHING)

    def api_away(self, step: UpgradeStep, control_plane: Collection[str]) -> Estimate | None:
        """The longest time without API in a step; None where the step stops no API server.

        Args:
            step: of the path.
            control_plane: names of all control-plane nodes.
        """
        name = API_AWAY.get(step.kind)
        if name is None or not set(step.nodes) & set(control_plane):
            return None
        name = API_MOVES if len(control_plane) > 1 else name
        return self._one(name, step.nodes[:1], step.release)

    def _parts(self, step: UpgradeStep) -> Iterator[Estimate]:
        name: str = NAMES.get(step.kind, step.kind)
        if step.kind not in OUT:
            yield self._one(name, step.nodes[:1], step.release)
            return
        yield self._one(name, step.nodes[:1], step.release)
        for part in EACH:
            yield longest(self._one(part, (node,), step.release) for node in step.nodes)

    @cached_property
    def _took(self) -> Mapping[tuple[str, str], list[float]]:
        """(step, node) -> seconds of each verified record; an empty node: of every record."""
        found: dict[tuple[str, str], list[float]] = {}
        for one in self.records:
            if one.outcome == "verified":
                for node in ("", *dict.fromkeys(one.nodes)):
                    found.setdefault((one.step, node), []).append(one.took_seconds)
        return found

    def _one(self, name: str, nodes: Sequence[str], release: str) -> Estimate:
        """The estimate of a step of the journal: by the node's own records where it has some."""
        own = (self._took.get((name, node)) for node in nodes)
        took = next(filter(None, own), None) or self._took.get((name, ""))
        if took:
            return Estimate(median(took), max(took), "journal", repeated=len(took) > 1)
        seconds = self.measured.get(release, {}).get(name)
        if seconds is None:
            return Estimate(0.0, 0.0, "unknown")
        return Estimate(seconds, seconds, "release")
