"""Show the host keys of nodes that are not known yet, and keep them once confirmed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.confirm import about_site, tell
from appliance.errors import NodeUnreachable, Refused

if TYPE_CHECKING:
    from appliance.model.site import Site

# Takes the keys of (address, port) for one run.
Trust = Callable[[Mapping[tuple[str, int], Any]], None]


def accept(
    site: Site,
    *,
    assume_yes: bool,
    trust: Trust | None = None,
    only: Collection[str] | None = None,
) -> None:
    """Ask each node without a known key for it, show the fingerprints, keep them when confirmed.

    Args:
        site: whose nodes are asked.
        assume_yes: nobody is asked.
        trust: of a rehearsal: takes the keys for this run, and known_hosts stays as it is.
        only: names of the nodes that are asked; None for all.

    Raises:
        NodeUnreachable: a node does not answer that is no mere worker.
        Refused: nobody confirmed, or a rehearsal needs a jump host whose key is not kept.
        ConfigError: known_hosts cannot be read.
    """
    from appliance.adapters.host_keys import host_keys, jump_host_key
    from appliance.adapters.known_hosts import missing
    from appliance.model.jump import jump_address

    jump = jump_address(site)
    if jump and missing(site.known_hosts, [jump[0]], jump[1]):
        addresses, keys = {"jump host": jump}, {"jump host": jump_host_key(jump)}
        if trust is not None:
            _require_keys(keys)
            _show(addresses, keys)
            raise Refused(
                f"the key of the jump host {jump[0]} is not in {site.known_hosts}, and --dry-run "
                "keeps none: no node can be reached",
                hint="compare it, and keep it by the same command without --dry-run",
            )
        keep(site, addresses, keys, assume_yes=assume_yes)
    port = site.settings.ssh.port
    asked = [node for node in site.nodes if only is None or node.name in only]
    absent = missing(site.known_hosts, [node.ip for node in asked], port)
    unknown = {node.name: (node.ip, port) for node in asked if node.ip in absent}
    if unknown:
        shown = _without_silent_workers(site, host_keys(site, unknown))
        if shown:
            addresses = {name: unknown[name] for name in shown}
            keep(site, addresses, shown, assume_yes=assume_yes, trust=trust)


def _without_silent_workers(site: Site, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys, but for workers that may be left out: whether they are is found by the look."""
    from appliance.model.left_out import spare_workers

    silent = [name for name in spare_workers(site) if isinstance(keys.get(name), str)]
    for name in sorted(silent):
        click.echo(f"note: {name} shows no host key yet: {keys[name]}", err=True)
    return {name: key for name, key in keys.items() if name not in silent}


def keep(
    site: Site,
    addresses: Mapping[str, tuple[str, int]],
    keys: Mapping[str, Any],
    *,
    assume_yes: bool,
    trust: Trust | None = None,
) -> None:
    """Show keys, have them confirmed, and keep them; of a rehearsal only trust them.

    Raises:
        NodeUnreachable: one of the keys is a sentence that says why there is none.
        Refused: nobody confirmed.
    """
    from appliance.adapters.known_hosts import append

    _require_keys(keys)
    tell(about_site(site))
    _show(addresses, keys)
    if not assume_yes:
        if not sys.stdin.isatty():
            raise Refused("nobody is there to confirm the host keys", hint="compare, pass --yes")
        if not click.confirm("Are these the keys the nodes' consoles show?", err=True):
            raise Refused("the host keys were not confirmed: nothing was changed")
    confirmed = {addresses[name]: key for name, key in keys.items()}
    if trust is None:
        append(site.known_hosts, confirmed)
        return
    trust(confirmed)
    click.echo(
        "note: these host keys are trusted for this run alone and were not kept; "
        "to keep them: the same command without --dry-run",
        err=True,
    )


def _require_keys(keys: Mapping[str, Any]) -> None:
    """Raise NodeUnreachable for keys that are sentences: why there is none."""
    silent = [f"{name}: {key}" for name, key in keys.items() if isinstance(key, str)]
    if silent:
        raise NodeUnreachable(
            silent[0], hint="is it powered on, cabled and on this network?", details=silent[1:]
        )


def _show(addresses: Mapping[str, tuple[str, int]], keys: Mapping[str, Any]) -> None:
    from appliance.adapters.known_hosts import fingerprint

    for name, key in keys.items():
        click.echo(f"{name} ({addresses[name][0]}): {fingerprint(key)}", err=True)
