"""A node's pods and marks, asked again for a while where no API server answers.

While a control-plane node starts or is upgraded, its API server restarts: one request without an
answer is no fault.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from appliance.errors import ClusterError, ClusterRefused, LeaseLost, NodeUnreachable

if TYPE_CHECKING:
    from appliance.model.node.drain import DrainView
    from appliance.model.state.cluster.pods import PodOnNode
    from appliance.model.state.nodes.maintenance import Maintenance
    from appliance.workflows.session.ports import Clock, Drain

SECONDS: Final = 90.0
POLL_SECONDS: Final = 2.0
T = TypeVar("T")


def ask_patiently(clock: Clock, request: Callable[[], T]) -> T:
    """Repeat for up to 90 s what may be done twice, while its failure may pass.

    Raises:
        LeaseLost, ClusterRefused: it does not pass.
        NodeUnreachable, ClusterError: it did not in time.
    """
    until = clock.monotonic() + SECONDS
    while True:
        try:
            return request()
        except (LeaseLost, ClusterRefused):
            raise
        except (NodeUnreachable, ClusterError):
            if clock.monotonic() >= until:
                raise
        clock.sleep(POLL_SECONDS)


class PatientDrain:
    """The same requests as a Drain's; each that may pass is repeated for up to 90 s."""

    def __init__(self, drain: Drain, clock: Clock) -> None:
        self._drain = drain
        self._clock = clock

    def _ask(self, request: Callable[[], T]) -> T:
        return ask_patiently(self._clock, request)

    def view(self, node: str) -> DrainView:
        """Everything that a forecast needs."""
        return self._ask(lambda: self._drain.view(node))

    def views(self, asked: Sequence[str]) -> Mapping[str, DrainView]:
        """The same of several nodes."""
        return self._ask(lambda: self._drain.views(asked))

    def pods_on(self, node: str) -> tuple[PodOnNode, ...]:
        """The node's own pods."""
        return self._ask(lambda: self._drain.pods_on(node))

    def mark(
        self,
        node: str,
        maintenance: Maintenance,
        *,
        cordon: bool,
        ours: Collection[Maintenance | None],
    ) -> None:
        """Write our annotation, and the cordon with it."""
        self._ask(lambda: self._drain.mark(node, maintenance, cordon=cordon, ours=ours))

    def clear(self, node: str, *, uncordon: bool, ours: Collection[Maintenance | None]) -> None:
        """Remove our annotation, and the cordon with it.

        Where an answer was lost it may be removed already, by us.
        """
        expected: list[Maintenance | None] = list(ours)

        def clear() -> None:
            try:
                self._drain.clear(node, uncordon=uncordon, ours=expected)
            except ClusterError:
                expected.append(None)
                raise

        self._ask(clear)

    def taint(self, node: str, *, on: bool, ours: Collection[Maintenance | None]) -> None:
        """Add or remove the drain taint."""
        self._ask(lambda: self._drain.taint(node, on=on, ours=ours))

    def evict(self, pod: PodOnNode) -> str:
        """Request a pod's eviction; the reason if it was not granted, else empty."""
        return self._ask(lambda: self._drain.evict(pod))
