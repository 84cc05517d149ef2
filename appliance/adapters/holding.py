"""What a changing command holds: this machine's lock first, then the site's on its nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from appliance.adapters.lease import SiteLease, origin
from appliance.adapters.site_lock import site_lock
from appliance.model.lease import Holder

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.journal import Run
    from appliance.model.site import Site


class Holding:
    """Takes the site when the first step begins, so that who has nothing to do takes nothing.

    Args:
        site: the one to hold.
        nodes: SSH to its nodes.
        run: for whom.
        reason: why, as the operator said it.
        looking_since: when the command began to look at the site (``lease.awake_seconds``).
        say: tells the operator a sentence.
    """

    def __init__(
        self,
        site: Site,
        nodes: SshNodes,
        run: Run,
        reason: str,
        looking_since: float,
        say: Callable[[str], None],
    ) -> None:
        self._site = site
        self._run = run
        self._reason = reason
        holder = Holder(
            run=run.id,
            command=run.command,
            operator=run.operator,
            host=run.host,
            reason=reason,
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            origin=origin(),
        )
        self._lease = SiteLease(site, nodes, holder, looking_since, say)
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
        why = f" ({self._reason})" if self._reason else ""
        what = f"{self._run.command} {self._run.id}{why}"
        self._stack.enter_context(site_lock(self._site.state_directory, what))
        self._stack.callback(self._lease.release)
        notes = self._lease.acquire()
        self._held = True
        return notes

    def end(self) -> None:
        """Give back what was taken."""
        self._stack.close()
