"""The protocol of what a support bundle is gathered from, beside the look at the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site
    from appliance.model.support.items import Found, Unanswered
    from appliance.model.support.requests import Asking
    from appliance.model.upkeep.horizon.brought import Brought


class Evidence(Protocol):
    """Logs and lists, each answer on its own; a part that fails takes no other along."""

    def of_nodes(
        self, asked: Sequence[Node], asking: Asking
    ) -> Iterator[tuple[str, Found | Unanswered | None]]:
        """Ask nodes at the same time: (node, answer) as they come, (node, None) at its end."""

    def join_tokens(self, asked: Sequence[Node]) -> tuple[tuple[str, ...], str]:
        """When each join token ends (ISO 8601), by the first of the nodes that tells it.

        Nothing else of a token leaves a node.

        Returns:
            The moments; and why they are unknown, or an empty string.
        """

    def served_ends(self, asked: Sequence[Node]) -> Mapping[str, str]:
        """Node -> when the certificate ends that its API server shows to this machine (ISO 8601).

        A node that this machine does not reach is left out: it may be behind a jump host.
        """

    def brought(self, site: Site) -> tuple[Brought, ...]:
        """When the certificates end that the organisation brings: its registry's, and its CAs.

        What this machine cannot read says why.
        """

    def of_cluster(self, since_seconds: int, seconds: float) -> Iterator[Found | Unanswered]:
        """Events, pods, Helm's history, logs of unhealthy pods, within so many seconds."""

    def of_machine(self, oldest: float) -> Iterator[Found | Unanswered]:
        """Logs of runs and of internal errors on this machine, since then (UTC epoch seconds)."""

    def versions(self) -> dict[str, Any]:
        """Of this tool and of what it uses."""
