"""A world whose every change can be the last one before a kill."""

from __future__ import annotations


class Killed(BaseException):
    """SIGKILL: nothing that follows in this process has an effect."""


class Acts:
    """Counts changes, and ends the process at one of them.

    Attributes:
        done: every change that had an effect, in order.
        kill_at: the number of the change at which the process ends; -1: never.
        after: the kill comes after that change, not before it.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.kill_at = -1
        self.after = False
        self._number = 0

    def again(self) -> None:
        """A new process, which nobody kills."""
        self.kill_at, self._number = -1, 0

    def before(self) -> None:
        """Raise where the kill comes before this change."""
        if self._number == self.kill_at and not self.after:
            raise Killed

    def made(self, what: str) -> None:
        """The change was made; raise where the kill comes after it."""
        self.done.append(what)
        self._number += 1
        if self._number - 1 == self.kill_at and self.after:
            raise Killed
