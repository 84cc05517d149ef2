"""Fetches the host keys of machines without logging in.

What must not be here: which keys are trusted (``known_hosts.py``), or asking a person.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from appliance.adapters.ssh.way import logins_at_once, through_jump_host
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import CONNECT_SECONDS

if TYPE_CHECKING:
    import paramiko


def jump_host_key(address: tuple[str, int]) -> paramiko.PKey | str:
    """The key of the jump host at (host, port), or a sentence that says why there is none."""
    return _key_of(
        f"{address[0]}:{address[1]}",
        lambda: socket.create_connection(address, timeout=CONNECT_SECONDS),
    )


def shown_key(address: str, port: int) -> paramiko.PKey | str:
    """The key that a machine of no site shows, or a sentence that says why there is none."""
    return _key_of(
        f"{address}:{port}",
        lambda: socket.create_connection((address, port), timeout=CONNECT_SECONDS),
    )


def host_keys(site: Site, names: Collection[str]) -> dict[str, paramiko.PKey | str]:
    """Fetch the nodes' host keys without logging in, through the jump host if there is one.

    Returns:
        Node name -> the key, or a sentence that says why there is none.
    """
    port, nodes = site.settings.ssh.port, [node for node in site.nodes if node.name in names]

    def ask(node: Node) -> paramiko.PKey | str:
        def opened() -> Any:
            way = through_jump_host(site, node.ip)
            return way or socket.create_connection((node.ip, port), timeout=CONNECT_SECONDS)

        return _key_of(f"{node.ip}:{port}", opened)

    with ThreadPoolExecutor(min(len(nodes), logins_at_once(site)) or 1) as pool:
        return dict(zip((node.name for node in nodes), pool.map(ask, nodes), strict=True))


def _key_of(where: str, opened: Callable[[], Any]) -> paramiko.PKey | str:
    import paramiko

    try:
        connection = opened()
        try:
            transport = paramiko.Transport(connection)
            try:
                transport.start_client(timeout=CONNECT_SECONDS)
                return transport.get_remote_server_key()
            finally:
                transport.close()
        finally:
            connection.close()
    except (OSError, EOFError, paramiko.SSHException) as error:
        return f"no SSH on {where}: {error}"
