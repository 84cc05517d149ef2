"""The sources of a support bundle of one site, behind the port of its workflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from appliance.adapters.support import machine
from appliance.adapters.support.brought import read_brought
from appliance.adapters.support.cluster import ask_cluster
from appliance.adapters.support.join_tokens import read_join_tokens
from appliance.adapters.support.nodes import Answer, ask_nodes
from appliance.adapters.support.served import read_served_ends

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.api import KubernetesApi
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site
    from appliance.model.support.items import Found, Unanswered
    from appliance.model.support.requests import Asking
    from appliance.model.upkeep.horizon.brought import Brought


class SiteEvidence:
    """Logs and lists of one site.

    Args:
        nodes: SSH to its nodes.
        api: of its cluster.
    """

    def __init__(self, nodes: SshNodes, api: KubernetesApi) -> None:
        self._nodes = nodes
        self._api = api

    def of_nodes(self, asked: Sequence[Node], asking: Asking) -> Iterator[Answer]:
        """Ask nodes at the same time, each within its own seconds."""
        return ask_nodes(self._nodes, asked, asking)

    def join_tokens(self, asked: Sequence[Node]) -> tuple[tuple[str, ...], str]:
        """When each join token ends, by the first control-plane node that tells it."""
        return read_join_tokens(self._nodes, asked)

    def served_ends(self, asked: Sequence[Node]) -> Mapping[str, str]:
        """When the certificates end that API servers show to this machine."""
        return read_served_ends(asked)

    def brought(self, site: Site) -> tuple[Brought, ...]:
        """The certificates that the organisation brings, as this machine reads them."""
        return tuple(read_brought(site))

    def of_cluster(self, since_seconds: int, seconds: float) -> Iterator[Found | Unanswered]:
        """What the Kubernetes API tells."""
        return ask_cluster(self._api, since_seconds, seconds)

    def of_machine(self, oldest: float) -> Iterator[Found | Unanswered]:
        """What this machine has."""
        yield from machine.run_logs(self._api.site.directory, oldest)
        yield from machine.fault_logs(oldest)

    def versions(self) -> dict[str, Any]:
        """Of this tool and of what it uses."""
        return machine.versions()
