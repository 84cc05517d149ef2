"""How full the file systems of a node were, at earlier looks: kept so that growth can be foreseen.

One sample in some hours is enough for a forecast of days. What must not be here: the files, and
what a forecast means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final

from pydantic import Field

from appliance.model.documents.typed_json import Line, NodeName, read_typed
from appliance.model.state.facts.facts import NodeFacts

SCHEMA: Final = 1
MOST_BYTES: Final = 1 << 20
# A look that follows the last sample sooner replaces nothing and adds nothing.
APART_SECONDS: Final = 4 * 3600.0
KEPT_SECONDS: Final = 60 * 86400.0
MOST_SAMPLES: Final = 400
MOST_MOUNTS: Final = 30
# A forecast of days needs growth that was seen for half a day, in three looks.
LEAST_SECONDS: Final = 12 * 3600.0
LEAST_SAMPLES: Final = 3

Bytes = Annotated[int, Field(ge=0, le=1 << 60)]


@dataclass(frozen=True)
class Sample:
    """One look.

    Attributes:
        seen: UTC epoch seconds.
        used: mount point -> bytes that are not free.
    """

    seen: Annotated[float, Field(ge=0, le=1e11)]
    used: Mapping[Line, Bytes]


@dataclass(frozen=True)
class DiskHistory:
    """The samples of one node, the oldest first."""

    node: NodeName
    samples: tuple[Sample, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        samples = [{"seen": one.seen, "used": dict(one.used)} for one in self.samples]
        return {"schema": SCHEMA, "node": self.node, "samples": samples}

    def growth(self, mount: str) -> float | None:
        """Bytes per second by which a file system fills; None where too little was seen.

        By least squares: one large file that came and went decides nothing. What was seen before
        the file system last lost a tenth of its content is left out: that was a clean-up.
        """
        points = [(one.seen, one.used[mount]) for one in self.samples if mount in one.used]
        start = max(
            (
                index + 1
                for index, (before, after) in enumerate(pairwise(points))
                if after[1] < 0.9 * before[1]
            ),
            default=0,
        )
        return _slope(points[start:])


def _slope(points: Sequence[tuple[float, int]]) -> float | None:
    if len(points) < LEAST_SAMPLES or points[-1][0] - points[0][0] < LEAST_SECONDS:
        return None
    middle = sum(seen for seen, _ in points) / len(points)
    mean = sum(used for _, used in points) / len(points)
    spread = sum((seen - middle) ** 2 for seen, _ in points)
    return sum((seen - middle) * (used - mean) for seen, used in points) / spread


def used_of(facts: NodeFacts) -> dict[str, int]:
    """Mount point -> bytes that are not free, of the file systems that the appliance writes to."""
    found = [
        (str(one.get("mount")), one.get("size_bytes"), one.get("free_bytes"))
        for one in facts.items("filesystems")[:MOST_MOUNTS]
        if not one.get("read_only")
    ]
    return {
        mount: size - free
        for mount, size, free in found
        if isinstance(size, int) and isinstance(free, int) and 0 <= free <= size
    }


def with_sample(history: DiskHistory, seen: float, used: Mapping[str, int]) -> DiskHistory:
    """The history with one more look; the same where that is too soon, or shows nothing.

    A sample from the future is dropped: the clock of this machine was wrong then.
    """
    before = [one for one in history.samples if seen - KEPT_SECONDS < one.seen <= seen]
    is_due = not before or seen - before[-1].seen >= APART_SECONDS
    after = [*before, *([Sample(seen, used)] if used and is_due else [])][-MOST_SAMPLES:]
    return DiskHistory(history.node, tuple(after))


@dataclass(frozen=True)
class _Document:
    """A history as it is kept."""

    schema: Annotated[int, Field(ge=SCHEMA, le=SCHEMA)]
    node: NodeName
    samples: Annotated[tuple[Sample, ...], Field(max_length=MOST_SAMPLES)]


def read_disk_history(content: str | bytes) -> DiskHistory:
    """Read a history.

    Raises:
        ValueError: it is none.
    """
    found = read_typed(content, _Document, most_bytes=MOST_BYTES)
    samples = tuple(sorted(found.samples, key=lambda one: one.seen))
    return DiskHistory(found.node, samples)
