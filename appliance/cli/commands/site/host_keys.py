"""Show the host keys of nodes that are not known yet, and save them once confirmed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.screen.confirm import about_site, tell
from appliance.errors import NodeUnreachable, Refused

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

# Trusts the keys of (address, port) for one run.
Trust = Callable[[Mapping[tuple[str, int], Any]], None]


def accept(
    site: Site,
    *,
    assume_yes: bool,
    trust: Trust | None = None,
    only: Collection[str] | None = None,
    expected: Collection[str] | None = None,
) -> dict[str, str]:
    """Fetch the host key of each unknown node, show the fingerprints, save them once confirmed.

    Args:
        site: the site of the nodes.
        assume_yes: save without asking.
        trust: for a dry run: trusts the keys for this run; known_hosts stays unchanged.
        only: names of the nodes to ask; None for all.
        expected: fingerprints that were compared, ``SHA256:`` and base64; a key with another one
            is refused. None: what is confirmed counts.

    Returns:
        The node's name -> type and fingerprint, of each key that was accepted.

    Raises:
        NodeUnreachable: a node that is not just a worker does not answer.
        Refused: the keys were not confirmed, or not expected, or a dry run needs an unknown jump
            host.
        ConfigError: known_hosts cannot be read.
    """
    from appliance.adapters.ssh.trust.host_keys import host_keys, jump_host_key
    from appliance.adapters.ssh.trust.known_hosts import fingerprint, missing
    from appliance.model.site.ssh import jump_address

    jump = jump_address(site)
    if jump and missing(site.known_hosts, [jump[0]], jump[1]):
        addresses, keys = {"jump host": jump}, {"jump host": jump_host_key(jump)}
        if trust is not None:
            _require_keys(keys)
            _show(addresses, keys)
            raise Refused(
                f"the key of the jump host {jump[0]} is not in {site.known_hosts}, and --dry-run "
                "saves no key: no node can be reached",
                hint="compare the key, and save it with the same command without --dry-run",
            )
        keep(site, addresses, keys, assume_yes=assume_yes, expected=expected)
    port = site.settings.ssh.port
    nodes = [node for node in site.nodes if only is None or node.name in only]
    absent = missing(site.known_hosts, [node.ip for node in nodes], port)
    unknown = {node.name: (node.ip, port) for node in nodes if node.ip in absent}
    if unknown:
        shown = _without_silent_workers(site, host_keys(site, unknown))
        if shown:
            addresses = {name: unknown[name] for name in shown}
            keep(site, addresses, shown, assume_yes=assume_yes, trust=trust, expected=expected)
            return {name: fingerprint(key) for name, key in shown.items()}
    return {}


def _without_silent_workers(site: Site, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys without those of silent workers that may be left out; the probe decides on them."""
    from appliance.model.plan.left_out import spare_workers

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
    expected: Collection[str] | None = None,
) -> None:
    """Show keys, ask for confirmation, and save them; a dry run only trusts them.

    Raises:
        NodeUnreachable: one of the keys is a sentence that says why there is none.
        Refused: the keys were not confirmed, or not expected.
    """
    from appliance.adapters.ssh.trust.known_hosts import append

    _require_keys(keys)
    tell(about_site(site))
    _show(addresses, keys)
    if expected is not None:
        _require_expected(keys, expected)
    if not assume_yes:
        if not sys.stdin.isatty():
            raise Refused(
                "confirm the host keys: stdin is not a terminal",
                hint="compare, pass --yes",
            )
        if not click.confirm("Are these the keys the nodes' consoles show?", err=True):
            raise Refused("the host keys were not confirmed: nothing was changed")
    confirmed = {addresses[name]: key for name, key in keys.items()}
    if trust is None:
        append(site.known_hosts, confirmed)
        return
    trust(confirmed)
    click.echo(
        "note: these host keys are trusted for this run only and were not saved; "
        "to save them, run the same command without --dry-run",
        err=True,
    )


def _require_keys(keys: Mapping[str, Any]) -> None:
    """Raise NodeUnreachable if a key is a sentence that says why there is none."""
    silent = [f"{name}: {key}" for name, key in keys.items() if isinstance(key, str)]
    if silent:
        raise NodeUnreachable(
            silent[0],
            hint="check that it is powered on, cabled and on this network",
            details=silent[1:],
        )


def _require_expected(keys: Mapping[str, Any], expected: Collection[str]) -> None:
    strange = [name for name, key in keys.items() if key.fingerprint not in expected]
    if strange:
        raise Refused(
            f"{', '.join(strange)}: nobody said that this host key was compared; secrets of the "
            "site go to these machines, so nothing was changed",
            hint="compare with their consoles: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; "
            "then add --expect-host-key SHA256:... for each, or leave --yes out",
        )


def _show(addresses: Mapping[str, tuple[str, int]], keys: Mapping[str, Any]) -> None:
    from appliance.adapters.ssh.trust.known_hosts import fingerprint

    for name, key in keys.items():
        click.echo(f"{name} ({addresses[name][0]}): {fingerprint(key)}", err=True)
