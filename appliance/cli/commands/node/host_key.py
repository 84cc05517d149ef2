"""Replace the host key of a node whose machine was replaced or reinstalled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.cli.commands.site.host_keys import accept, keep
from appliance.errors import NodeUnreachable, Refused

if TYPE_CHECKING:
    from appliance.cli.site_session import SiteSession


def renew_host_key(
    connected: SiteSession, name: str, *, yes: bool, sworn: bool, dry_run: bool = False
) -> None:
    """Remove a stale host key of one node, show the new key, save it once confirmed.

    A rehearsal writes nothing: the new key is trusted for this run alone.

    Raises:
        Refused: the Node is Ready, so two machines may run under one name; or the key was not
            confirmed.
        NodeUnreachable: the machine does not answer.
    """
    from appliance.adapters.ssh.trust.host_keys import host_keys
    from appliance.adapters.ssh.trust.known_hosts import forget, holds
    from appliance.model.state.cluster.cluster import Cluster

    site = connected.site
    node = next((one for one in site.nodes if one.name == name), None)
    if node is None:
        return
    port = site.settings.ssh.port
    trust = connected.nodes.trust if dry_run else None
    key = host_keys(site, {name})[name]
    if not isinstance(key, str) and not holds(site.known_hosts, node.ip, port, key):
        look = connected.nodes.look(site.control_plane)
        state = connected.cluster.read(look.node_facts)
        if not isinstance(state, Cluster):
            raise NodeUnreachable(
                f"{name}: its host key differs from the one in {site.known_hosts}, and no API "
                "server answers to tell whether the old machine is off",
                hint="check that you are on the right network: appliance status",
            )
        member = state.nodes.get(name)
        if member is not None and member.ready and not sworn:
            raise Refused(
                f"{name}: its host key differs from the one in {site.known_hosts}, and its Node "
                "is Ready: two machines may be running under this name",
                hint="if the machine was just reinstalled, wait a minute until its Node is "
                f"NotReady; else find the other machine: kubectl get node {name} -o wide",
            )
        if trust is not None:
            address = {name: (node.ip, port)}
            keep(site, address, {name: key}, assume_yes=yes, trust=trust)
            return
        forget(site.known_hosts, node.ip, port)
    accept(site, assume_yes=yes, trust=trust, only={name})
