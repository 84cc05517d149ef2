"""Waits with a time limit: by the monotonic clock, and with one last observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.workflows.session.ports import Clock


class Patience:
    """Asked after each look that did not see what is waited for.

    A look that was taken before the end is no proof of what is so after it: the machine may have
    slept, or a call may have hung. So one more look follows, which begins after the end.

    Args:
        clock: whose seconds count; those in which this machine slept do not.
        seconds: how long; none at all means that the first look is the last.

    Attributes:
        is_last: the next look is the last, so it has to be a whole one.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.monotonic() + seconds
        self.is_last = seconds <= 0

    def is_over(self) -> bool:
        """Whether the look before this question was the last one."""
        if self.is_last:
            return True
        self.is_last = self._clock.monotonic() >= self._end
        return False
