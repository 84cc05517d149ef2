"""Real time."""

from __future__ import annotations

import time
from typing import Protocol


class WaitClock(Protocol):
    """What an adapter that waits needs of a clock."""

    def monotonic(self) -> float:
        """Seconds while this machine was awake."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The two clocks of this machine: one for records, one for waits."""

    def now(self) -> float:
        """UTC epoch seconds by this machine's clock; only for output to people."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds while this machine was awake, unaffected by changes of its clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
