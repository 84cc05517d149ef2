"""How long a bundle build still takes, by the times of earlier builds and of this one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

# With fewer finished artifacts, this build says nothing about the others.
_ENOUGH: Final = 3
_SHORTEST_SECONDS: Final = 10.0
_MINUTES_FROM_SECONDS: Final = 90.0


def seconds_left(
    waiting: Collection[str],
    running: Mapping[str, float],
    *,
    earlier: Mapping[str, float],
    finished: Sequence[float],
    jobs: int,
) -> float | None:
    """The expected time in seconds; None while too little is known.

    Args:
        waiting: artifacts that were not started.
        running: artifact -> for how many seconds it has run.
        earlier: artifact -> the seconds that it took in an earlier build.
        finished: the seconds of each artifact that this build finished.
        jobs: how many run in parallel.
    """
    typical = sum(finished) / len(finished) if len(finished) >= _ENOUGH else None
    rests = []
    for name in (*waiting, *running):
        expected = earlier.get(name, typical)
        if expected is None:
            return None
        rests.append(max(0.0, expected - running.get(name, 0.0)))
    return max(max(rests, default=0.0), sum(rests) / max(1, jobs))


def words(seconds: float | None) -> str:
    """The time as people say it; empty if it is short or not known."""
    if seconds is None or seconds < _SHORTEST_SECONDS:
        return ""
    if seconds < _MINUTES_FROM_SECONDS:
        return f"about {round(seconds / 10) * 10} seconds"
    return f"about {round(seconds / 60)} min"
