"""One point of the list that is judged before the first change: go, no-go, or unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from appliance.model.state.plan import Refusal
from appliance.model.upgrade.evidence import Silence

Verdict = Literal["go", "no-go", "unknown"]


@dataclass(frozen=True)
class Gate:
    """One point, judged. An unknown one is never taken for a go.

    Attributes:
        name: what is judged, e.g. ``etcd``.
        found: in words.
        expected: in words; empty: what was found says it all.
        cure: the next command; empty for a go.
        node: where; empty: the cluster as a whole.
    """

    name: str
    verdict: Verdict
    found: str
    expected: str
    cure: str = ""
    node: str = ""

    @property
    def stops(self) -> bool:
        """Whether nothing may be changed."""
        return self.verdict != "go"

    def sentence(self) -> str:
        """The point in one line."""
        where = f"{self.node}: " if self.node else ""
        told = self.expected and self.verdict != "go"
        expected = f", expected {self.expected}" if told else ""
        return f"{self.verdict}: {self.name}: {where}{self.found}{expected}"

    def refusal(self, otherwise: str = "the cluster") -> Refusal:
        """The same as a refusal."""
        found = self.found if self.verdict == "no-go" else f"no answer ({self.found})"
        return Refusal(self.node or otherwise, self.name, found, self.expected, self.cure)


@dataclass(frozen=True)
class Point:
    """What a gate judges: its name and what is expected; makes its verdicts."""

    name: str
    expected: str

    def go(self, found: str) -> Gate:
        """It is as expected."""
        return Gate(self.name, "go", found, self.expected)

    def stop(self, found: str, cure: str, node: str = "") -> Gate:
        """It is not."""
        return Gate(self.name, "no-go", found, self.expected, cure, node)

    def unknown(self, silence: Silence, cure: str, node: str = "") -> Gate:
        """Nobody knows."""
        cure = silence.cure or cure
        return Gate(self.name, "unknown", silence.reason, self.expected, cure, node)

    def all_of(self, faults: Iterable[Gate], well: str) -> tuple[Gate, ...]:
        """The faults; one go without any."""
        return tuple(faults) or (self.go(well),)


def stopping(gates: Iterable[Gate]) -> tuple[Gate, ...]:
    """Those that forbid the first change."""
    return tuple(gate for gate in gates if gate.stops)
