"""``appliance reset``: a whole appliance back to bare Ubuntu."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.install.scope import host_of
from appliance.cli.help.complete import any_node
from appliance.cli.options import changed_site_option, dry_run_option, output_option, yes_option
from appliance.cli.screen.confirm import about_site, confirmed, tell
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line
from appliance.errors import ApplianceError, Refused

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.cli.site_session import SiteSession
    from appliance.workflows.reset import ResetResult


@click.command()
@click.option(
    "--wipe",
    default="",
    metavar="SITE",
    help="The name of the site that may be taken apart; it is asked where it is not given.",
)
@click.option(
    "--lose-data",
    is_flag=True,
    help="Delete data too: shared storage with Run:ai's database, snapshots of etcd, backups.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NODE",
    shell_complete=any_node,
    help="Leave this node, which does not answer, as it is; may be repeated.",
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def reset(
    app: Application,
    wipe: str,
    lose_data: bool,
    without: tuple[str, ...],
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Take the whole appliance apart: every node back to bare Ubuntu.

    First a forecast: each node, what runs there, which data end, and the last backup. Then:

    \b
    - workers first, then control planes, the node with registry and mirror last
    - each is reset as by 'node remove'; what the product brought is purged and removed
    - data stay and are named, unless --lose-data is given; the GPU driver stays
    - a machine that is not proved to be this site's is refused; nothing is changed anywhere
    - a node that does not answer is refused, unless --without names it
    - the site's name has to be typed, or given by --wipe; --yes alone is refused

    The same command continues an interrupted run. 'appliance install' installs it again.

    Example: appliance reset --wipe rack7 --dry-run
    """
    from appliance.adapters.local.content import runtimes_after
    from appliance.adapters.reset.local_state import cluster_ca, forget_cluster
    from appliance.adapters.reset.remains import SshRemains
    from appliance.workflows.reset import COMMAND, ResetRequest
    from appliance.workflows.reset import reset as take_apart

    connected = app.connect(site)
    for name in without:
        host_of(connected.site, name)
    run = connected.run(COMMAND)
    request = ResetRequest(
        connected.site,
        run,
        runtimes_after(connected.desired.release),
        wipe,
        frozenset(without),
        lose_data,
        cluster_ca(connected.site),
        partial(_site_ca, connected),
        dry_run,
    )

    def confirm(lines: Sequence[str]) -> bool:
        if not connected.vault_is_open:
            return False
        return _confirmed(connected, lines, yes=yes, wipe=wipe)

    with (
        progress(plain=output == "json", title="appliance reset") as display,
        closing(connected.drain()) as drain,
    ):
        session = replace(
            connected.session(display, run, plays=True),
            drain=drain,
            remains=SshRemains(connected.site, connected.nodes),
            forget_cluster=partial(forget_cluster, connected.site),
        )
        done = take_apart(request, session, confirm)
    _show(done, output)


def _confirmed(connected: SiteSession, lines: Sequence[str], *, yes: bool, wipe: str) -> bool:
    name = connected.site.name
    if yes and not wipe:
        raise Refused(
            "--yes alone does not take an appliance apart: nothing was changed",
            hint=f"name the site too: appliance reset --wipe {name} --yes",
        )
    if not wipe and not sys.stdin.isatty():
        tell([*about_site(connected.site), *lines])
        raise Refused(
            "there is no terminal to type the site's name on: nothing was changed",
            hint=f"name the site: appliance reset --wipe {name} --yes",
        )
    if wipe:
        return confirmed(yes, about_site(connected.site), lambda: tell(lines))
    tell([*about_site(connected.site), *lines])
    typed = click.prompt(f"Type the site's name ({name}) to take it apart", default="", err=True)
    if str(typed).strip() != name:
        raise Refused(
            f"that is not the site's name ({name}): nothing was changed",
            hint=f"type {name} at the question, or name it: appliance reset --wipe {name}",
        )
    return True


def _site_ca(connected: SiteSession) -> str | None:
    """The digest of the site's CA as the survey of a node tells it; None: a closed vault."""
    from appliance.adapters.reset.local_state import digest_of
    from appliance.adapters.site.vault import vault_of
    from appliance.model.site.vault_ref import CA_CERTIFICATE

    with suppress(ApplianceError):
        text = vault_of(connected.site)().get(CA_CERTIFICATE.name)
        return digest_of(text) if text else None
    return None


def _show(done: ResetResult, output: str) -> None:
    plan = done.plan
    if output == "json":
        print_json(
            {
                "changed": done.done,
                "nodes": [
                    {
                        "node": one.node,
                        "serial": one.machine.serial,
                        "member": one.reset is not None,
                        "packages": list(one.remains.packages),
                        "data": [list(pair) for pair in one.remains.data],
                        "data_deleted": one.loses_data,
                        "stays": [list(pair) for pair in one.remains.stays],
                    }
                    for one in plan.nodes
                ],
                "left": dict(plan.left),
                "forecast": list(done.lines),
            }
        )
        return
    for line in done.lines:
        print_line(line)
    if plan.is_empty:
        print_line("nothing to do: no node has anything of the appliance")
    elif done.done:
        print_line(
            "the appliance is taken apart. Kernel settings and modules stay until a node reboots; "
            "to install again: appliance install --bundle DIR"
        )
