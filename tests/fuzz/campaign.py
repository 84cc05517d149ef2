"""Tries many inputs at one border, and counts what must not be: tracebacks, and changes outside."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from appliance.errors import ApplianceError
from tests.fuzz.mutation import Mutator
from tests.trees import snapshot

# How often what surrounds the site is compared: the comparison itself takes time.
EVERY = 200
SITE = "site"


@dataclass(frozen=True)
class Border:
    """A place where something from outside is read.

    Attributes:
        name: what is read there.
        attempt: makes one input with the mutator, and reads it in a folder of its own; what it
            may change lies below ``site`` there.
        declared: what the reader may raise beside the product's own errors, by its docstring.
    """

    name: str
    attempt: Callable[[Mutator, Path], None]
    declared: tuple[type[Exception], ...] = ()


@dataclass
class Outcome:
    """What came of it."""

    name: str
    seed: int
    tried: int = 0
    refused: int = 0
    seconds: float = 0.0
    changes: list[str] = field(default_factory=list)
    tracebacks: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)

    def faults(self) -> list[str]:
        """What must not be, with what it takes to try it again."""
        return self.changes + [
            f"{where}: {count} times, first by input {self.first[where]} of seed {self.seed}"
            for where, count in self.tracebacks.items()
        ]

    def line(self) -> str:
        """One row of the table."""
        return (
            f"{self.name:<22} seed {self.seed:<11} tried {self.tried:>7} refused {self.refused:>7} "
            f"tracebacks {sum(self.tracebacks.values()):>5} changes {len(self.changes):>3} "
            f"{self.seconds:>7.1f} s"
        )


def run(border: Border, seed: int, inputs: int, folder: Path) -> Outcome:
    """Try so many inputs; each from a seed of its own, so that one can be tried again alone."""
    outcome = Outcome(border.name, seed)
    prerequisites = folder / "surroundings"
    (prerequisites / SITE).mkdir(parents=True)
    (prerequisites / "theirs").write_text("theirs")
    (prerequisites / "link").symlink_to(prerequisites / "theirs")
    allowed: tuple[type[Exception], ...] = (ApplianceError, *border.declared)
    before, began = _outside(prerequisites), time.process_time()
    for number in range(inputs):
        outcome.tried += 1
        try:
            border.attempt(Mutator(seed * 1_000_003 + number), prerequisites)
        except allowed:
            outcome.refused += 1
        except Exception as error:
            where = _place(error)
            outcome.tracebacks[where] = outcome.tracebacks.get(where, 0) + 1
            outcome.first.setdefault(where, number)
        if number % EVERY == EVERY - 1 or number == inputs - 1:
            after = _outside(prerequisites)
            if after != before:
                changed = sorted(k for k in before.keys() | after if before.get(k) != after.get(k))
                outcome.changes.append(f"{changed[:5]} by input {number - EVERY + 1} to {number}")
                before = after
    outcome.seconds = time.process_time() - began
    return outcome


def _outside(prerequisites: Path) -> dict[str, tuple[int, str | bytes]]:
    return {
        name: state for name, state in snapshot(prerequisites).items() if name.split("/")[0] != SITE
    }


def _place(error: Exception) -> str:
    """The last line of our own that it passed through, and what it was."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/appliance/" in frame.filename] or list(frames)
    last = ours[-1]
    return f"{last.filename.rpartition('/appliance/')[2]}:{last.lineno} {type(error).__name__}"
