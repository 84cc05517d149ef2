"""The locks of a changing command: first this machine's, then the site's on its nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.control_plane.local_lock import site_lock

if TYPE_CHECKING:
    from appliance.adapters.control_plane.lock import SiteLease
    from appliance.model.control.lock import LockVerdict


class SiteLocks:
    """Takes both locks when the first step begins: a command without work takes none.

    Args:
        state_directory: the site's state on this machine.
        what: the command, its run and its reason, for other commands on this machine.
        lease: the lock on the control-plane nodes.
        before_release: called before the locks are released, e.g. to wait for a copy.
    """

    def __init__(
        self,
        state_directory: Path,
        what: str,
        lease: SiteLease,
        before_release: Callable[[], None] = lambda: None,
    ) -> None:
        self._directory = state_directory
        self._what = what
        self._lease = lease
        self._before_release = before_release
        self._stack = ExitStack()
        self._held = False
        self._released = False
        self._depth = 0

    def __enter__(self) -> SiteLocks:
        """Begin the time in which the locks may be taken; this takes none."""
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        """Release the locks at the end of the outermost ``with``."""
        self._depth -= 1
        if self._depth:
            return
        try:
            self._before_release()
        finally:
            self._released, self._held = self._held, False
            self._stack.close()

    def require(self) -> tuple[str, ...]:
        """Take the locks at the first call; at later calls verify that they are still held.

        Raises:
            Refused: another command holds the site; names its operator, host, time and reason.
            NodeUnreachable: too few control-plane nodes answer.
            LeaseLost: the lock was lost.
        """
        if not self._depth or self._released:
            raise AssertionError("a command takes the site once, within the time of a with")
        if self._held:
            self._lease.require()
            return ()
        with ExitStack() as locks:
            locks.enter_context(site_lock(self._directory, self._what))
            locks.callback(self._lease.release)
            notes = self._lease.acquire()
            self._stack = locks.pop_all()
        self._held = True
        return notes

    def look(self) -> LockVerdict:
        """Who holds the site; writes nothing."""
        return self._lease.look()
