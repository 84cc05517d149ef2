"""What a changing command holds: this machine's lock first, then the site's on its nodes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from appliance.adapters.site_lock import site_lock

if TYPE_CHECKING:
    from pathlib import Path

    from appliance.adapters.lease import SiteLease


class Holding:
    """Takes the site when the first step begins, so that who has nothing to do takes nothing.

    Args:
        state_directory: of the site, on this machine.
        what: the command, its run and its reason, for who else is on this machine.
        lease: on the control-plane nodes.
    """

    def __init__(self, state_directory: Path, what: str, lease: SiteLease) -> None:
        self._directory = state_directory
        self._what = what
        self._lease = lease
        self._stack = ExitStack()
        self._held = False

    def begin(self) -> tuple[str, ...]:
        """Take the site at the first call; at later ones make sure that it is ours still.

        Raises:
            Refused: somebody else holds it; says who, where, since when and what for.
            NodeUnreachable: too few control-plane nodes answer.
            LeaseLost: it was ours, and is no longer.
        """
        if self._held:
            self._lease.require()
            return ()
        with ExitStack() as taken:
            taken.enter_context(site_lock(self._directory, self._what))
            taken.callback(self._lease.release)
            notes = self._lease.acquire()
            self._stack = taken.pop_all()
        self._held = True
        return notes

    def end(self) -> None:
        """Give back what was taken."""
        self._stack.close()
