"""``appliance hardware bmc-password``: new passwords of BMCs, kept in the site's vault."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.hardware import reader
from appliance.cli.commands.install.scope import host_of
from appliance.cli.help.complete import node_names
from appliance.cli.options import changed_site_option, dry_run_option, output_option, yes_option
from appliance.cli.screen.confirm import about_nodes, confirmed, tell
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.hardware.bmc_password import NodePassword, PasswordResult


@click.command("bmc-password")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=node_names)
@click.option("--renew", is_flag=True, help="Also replace passwords that this command made.")
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def bmc_password(
    app: Application,
    nodes: tuple[str, ...],
    renew: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Replace the passwords of BMCs, such as the factory's, by new ones in the vault.

    \b
    - a password is made for each BMC, by the rules that it tells; nobody has to see it
    - it is in group_vars/all/vault.yml before the BMC gets it; after a kill both are tried
    - done is what logins prove: the new one lets in, the old one does not; a BMC that cuts a
      password leaves the vault with what it keeps
    - one BMC after the other; the same command does the rest

    Put the vault under version control afterwards: other laptops need it.

    Example: appliance hardware bmc-password gpu1 gpu2
    """
    from appliance.workflows.hardware.bmc_password import (
        COMMAND,
        PasswordRequest,
        hardware_bmc_password,
    )

    connected = app.connect(site)
    asked = tuple(host_of(connected.site, name) for name in dict.fromkeys(nodes))
    run = connected.run(COMMAND)
    today = datetime.fromtimestamp(connected.clock.now(), UTC).date().isoformat()
    request = PasswordRequest(
        connected.site, asked, run, secrets.choice, today, renew=renew, dry_run=dry_run
    )

    def confirm(said: Sequence[str]) -> bool:
        about = about_nodes(connected.site, [node.name for node in asked])
        return confirmed(yes, about, lambda: tell(said))

    with progress(plain=output == "json") as display:
        session = reader.local_session(connected, display, run)
        accounts, vault = reader.accounts_of(connected)
        done = hardware_bmc_password(request, session, accounts, vault, confirm)
    _show(done, output)


def _show(done: PasswordResult, output: str) -> None:
    if output == "json":
        print_json({"changed": done.done, "nodes": [_as_json(one) for one in done.nodes]})
        return
    for one, planned in zip(done.nodes, done.planned, strict=True):
        print_line(f"{one.node}: {one.evidence}" if one.evidence else planned)
    if done.done:
        say("group_vars/all/vault.yml has changed: put it under version control")


def _as_json(one: NodePassword) -> dict[str, Any]:
    machine = one.account.machine if one.account else None
    return {
        "node": one.node,
        "user": one.login.user if one.login else None,
        "serial": machine.serial if machine else None,
        "since": one.since or None,
        "evidence": one.evidence or None,
        "reason": one.reason or None,
    }
