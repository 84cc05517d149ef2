"""``appliance node ssh``: a login as the site describes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.install.scope import host_of
from appliance.cli.help.complete import node_names
from appliance.cli.options import site_option

if TYPE_CHECKING:
    from appliance.cli.app import Application


@click.command("ssh", short_help="Log in to a node, or run a command there.")
@click.argument("node", shell_complete=node_names)
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@site_option
@click.pass_obj
def ssh(app: Application, node: str, command: tuple[str, ...], site: Path) -> None:
    """Log in to NODE, or run COMMAND there.

    \b
    - user, port, key and jump host are those of site.yml
    - the host key must be in the site's known_hosts
    - one word of COMMAND is for the node's shell, several are one program
      and its arguments

    The exit code is that of the command; 255: ssh did not connect.

    \b
    Example: appliance node ssh gpu1
             appliance node ssh gpu1 -- 'sudo dmesg | tail'
    """
    from appliance.adapters.ssh.login import log_in

    own = app.site(site)
    # A terminal on the node would change each line feed of what goes to a file here.
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    log_in(own, host_of(own, node), command, terminal=terminal)
