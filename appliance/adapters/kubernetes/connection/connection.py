"""The way to a site's API servers: credentials over SSH, then the official client in a tunnel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from appliance.adapters.kubernetes.connection.client import (
    Credentials,
    NotReadable,
    NotReady,
    api_client,
    ask_readiness,
    ask_version,
    credentials_of,
)
from appliance.adapters.kubernetes.connection.first import first_open
from appliance.adapters.ssh.tunnel import NotTaken
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node, Site

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes

API_PORT = 6443


class ApiConnection:
    """Clients of the API servers of one site.

    Args:
        site: whose control-plane nodes are asked, in the inventory's order.
        nodes: SSH to them.
    """

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self.site = site
        self.nodes = nodes

    @contextmanager
    def client(self, node: Node) -> Iterator[Any]:
        """An API client that talks to ``node``'s own API server.

        Raises:
            NotReadable: no whole credentials there.
        """
        answer = self.nodes.read_as_root(node, "/etc/kubernetes/admin.conf", timeout=10)
        if answer.code != 0:
            raise NotReadable("/etc/kubernetes/admin.conf does not exist")
        with self.client_of(node, credentials_of(answer.output)) as client:
            yield client

    @contextmanager
    def client_of(self, node: Node, credentials: Credentials) -> Iterator[Any]:
        """The same, with credentials from elsewhere.

        Raises:
            NotReadable: they are no pair, or the API refuses the connection.
        """
        with ExitStack() as stack:
            try:
                tunnel = self.nodes.tunnel(node, str(node.address.ip), API_PORT)
                port = stack.enter_context(tunnel)
            except NotTaken as error:
                raise NotReadable(f"the API refuses the connection: {error}") from error
            yield stack.enter_context(api_client(credentials, port))

    @contextmanager
    def any_client(self) -> Iterator[Any]:
        """A client to the first control-plane node whose API server is ready.

        Where none is, to the first that tells its version: a server that has just started works
        before it calls itself ready.

        Raises:
            NodeUnreachable: none answers.
        """
        told: dict[str, str] = {}
        not_ready: list[Node] = []

        @contextmanager
        def ready(node: Node) -> Iterator[Any]:
            with self.client(node) as client:
                try:
                    ask_readiness(client)
                except NotReady:
                    not_ready.append(node)
                    raise
                yield client

        @contextmanager
        def telling(node: Node) -> Iterator[Any]:
            with self.client(node) as client:
                ask_version(client)
                yield client

        # The second list is what the first pass puts there.
        for nodes, opened in ((self.site.control_plane, ready), (not_ready, telling)):
            with first_open(nodes, opened, partial(tell, told)) as found:
                if found is not None:
                    yield found[1]
                    return
        raise NodeUnreachable(
            f"no API server answers: {'; '.join(self.in_order(told))}",
            hint="see what is wrong: appliance status",
        )

    def in_order(self, told: Mapping[str, str]) -> list[str]:
        """Why each API server could not be asked, in the inventory's order."""
        return [told[node.name] for node in self.site.control_plane if node.name in told]


def tell(told: dict[str, str], node: Node, error: NodeUnreachable | NotReadable) -> None:
    """Write down why a node's API could not be asked; the last reason of each counts."""
    told[node.name] = (
        error.message if isinstance(error, NodeUnreachable) else f"{node.name}: {error}"
    )
