"""The annotation, cordon and taint of one run on one node: changed only while they are its own.

A laptop may sleep in the middle of a step. When it wakes, another one may have taken the site over
and have the node out of service itself; its annotation can even be the same, as it goes on with
ours. So the lease is asked before each write, and what is written over or undone has to be what we
found or wrote: the API server compares it, by the version of the Node object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from appliance.model.state.nodes.maintenance import Maintenance

if TYPE_CHECKING:
    from appliance.workflows.session.ports import Drain


class Marks:
    """Annotation, cordon and taint of one node.

    Every method raises LeaseLost when the site is no longer this command's, or the annotation is
    another than this run found or wrote; then nothing was written. And ClusterError when the API
    refused.

    Args:
        guard: makes sure that the site is ours (``require`` of its lock).
        name: of the node.
        before: what this run found there.
    """

    def __init__(
        self, drain: Drain, guard: Callable[[], object], name: str, before: Maintenance | None
    ) -> None:
        self._drain = drain
        self._guard = guard
        self._name = name
        self._ours: tuple[Maintenance | None, ...] = (before,)

    def write(self, mark: Maintenance, *, cordon: bool = False) -> None:
        """Write the annotation over ours, and the cordon with it."""
        self._guard()
        # An error of the API does not say whether it was written.
        self._ours = (*self._ours, mark)
        self._drain.mark(self._name, mark, cordon=cordon, ours=self._ours)
        self._ours = (mark,)

    def taint(self, *, on: bool) -> None:
        """Add the drain taint or take it away."""
        self._guard()
        self._drain.taint(self._name, on=on, ours=self._ours)

    def clear(self, *, uncordon: bool) -> None:
        """Take the annotation away, and the cordon with it."""
        self._guard()
        self._drain.clear(self._name, uncordon=uncordon, ours=self._ours)


def left_to_others(name: str) -> str:
    """The sentence for a node whose annotation is no longer ours to undo."""
    return f"{name} was left unchanged: another command has the site's lock now: appliance status"
