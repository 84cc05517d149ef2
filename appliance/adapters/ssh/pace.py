"""How long bytes to or from a node may take: a time that grows with their number.

A limit of silence alone lets a node hold a command for hours with a byte now and then. Only the
time in which the node is waited for counts, not what this machine does between two pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# Of nodes that share a slow line, each: 1 Mbit/s.
LEAST_BYTES_A_SECOND: Final = 128 * 1024
# Beside that, for a transfer whose first byte has come.
BEGUN_SECONDS: Final = 60.0
# Before that, where the command says nothing else.
WORK_SECONDS: Final = 900.0


def seconds_for(size: int) -> float:
    """The longest that so many bytes may take."""
    return BEGUN_SECONDS + size / LEAST_BYTES_A_SECOND


class Pace:
    """What one exchange has moved, and how long its node was waited for.

    Args:
        work_seconds: what the node may take before the first byte of its answer, beside the time
            of the bytes that it is sent.
        clock: seconds that never go back.
    """

    def __init__(self, work_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._spare = work_seconds
        self._clock = clock
        self._moved = 0
        self._waited = 0.0
        self._has_begun = False

    def moved(self, size: int) -> None:
        """So many bytes went to the node, or came from it."""
        self._moved += size

    def begun(self) -> None:
        """Its answer begins: from now on only the bytes count."""
        if not self._has_begun:
            self._has_begun, self._spare = True, BEGUN_SECONDS
            self._moved, self._waited = 0, 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The node is waited for."""
        began = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - began

    @property
    def is_over(self) -> bool:
        """Whether the node is too slow."""
        return self._waited > self._spare + self._moved / LEAST_BYTES_A_SECOND

    def sentence(self) -> str:
        """Why it is ended, in words."""
        rate = LEAST_BYTES_A_SECOND // 1024
        if not self._has_begun:
            return f"it was at work for {self._waited:.0f} s, and sent no answer"
        return (
            f"it moved {self._moved} bytes in {self._waited:.0f} s, expected {rate} KiB a second "
            "at least: see its load and the line to it"
        )
