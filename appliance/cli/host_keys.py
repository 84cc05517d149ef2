"""Show the host keys of nodes that are not known yet, and keep them once confirmed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from appliance.errors import NodeUnreachable, Refused

if TYPE_CHECKING:
    from appliance.model.site import Site


def accept(site: Site, *, assume_yes: bool) -> None:
    """Ask each node without a known key for it, show the fingerprints, keep them when confirmed.

    Raises:
        NodeUnreachable: a node does not answer.
        Refused: nobody confirmed.
    """
    from appliance.adapters.host_keys import host_keys, jump_host_key
    from appliance.adapters.known_hosts import missing
    from appliance.model.jump import jump_address

    jump = jump_address(site)
    if jump and missing(site.known_hosts, [jump[0]], jump[1]):
        _keep(site, {"jump host": jump}, {"jump host": jump_host_key(jump)}, assume_yes=assume_yes)
    port = site.settings.ssh.port
    unknown = {
        node.name: (node.ip, port)
        for node in site.nodes
        if node.ip in missing(site.known_hosts, [n.ip for n in site.nodes], port)
    }
    if unknown:
        _keep(site, unknown, host_keys(site, unknown), assume_yes=assume_yes)


def _keep(
    site: Site,
    addresses: Mapping[str, tuple[str, int]],
    keys: Mapping[str, Any],
    *,
    assume_yes: bool,
) -> None:
    from appliance.adapters.known_hosts import append, fingerprint

    silent = [f"{name}: {key}" for name, key in keys.items() if isinstance(key, str)]
    if silent:
        raise NodeUnreachable(
            silent[0], hint="is it powered on, cabled and on this network?", details=silent[1:]
        )
    for name, key in keys.items():
        if not isinstance(key, str):
            click.echo(f"{name} ({addresses[name][0]}): {fingerprint(key)}", err=True)
    if not assume_yes:
        if not sys.stdin.isatty():
            raise Refused("nobody is there to confirm the host keys", hint="compare, pass --yes")
        if not click.confirm("Are these the keys the nodes' consoles show?", err=True):
            raise Refused("the host keys were not confirmed: nothing was changed")
    append(
        site.known_hosts,
        {addresses[name]: key for name, key in keys.items() if not isinstance(key, str)},
    )
