"""Real time."""

from __future__ import annotations

import time


class SystemClock:
    """The two clocks of this machine: one for records, one for waits."""

    def now(self) -> float:
        """UTC epoch seconds, as this machine has been told; only for what people read."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds while this machine was awake, whatever is done to its clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
