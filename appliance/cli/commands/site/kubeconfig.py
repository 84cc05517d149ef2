"""``appliance kubeconfig``: the administrator's kubeconfig for this machine."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import Place, site_option
from appliance.model.components.control_plane.admin_kubeconfig import TUNNEL_PORT

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.admin_kubeconfig import Holder, Reach
    from appliance.cli.app import Application
    from appliance.model.site.settings import Site

_HOST = re.compile(r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(:(?P<port>\d{1,5}))?")


def _address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """HOST:PORT; without a port, that of an API server."""
    if value is None:
        return None
    found = _HOST.fullmatch(value)
    if found is None or not 0 < int(found["port"] or 6443) < 65536:
        raise click.BadParameter(f"{value!r} is not HOST or HOST:PORT, as 127.0.0.1:16443")
    return f"{found['host']}:{found['port'] or 6443}"


@click.command(short_help="Print a kubeconfig that works on this machine.")
@click.option(
    "--out",
    type=Place(dir_okay=False),
    help="File to write, mode 0600. Default: standard output.",
)
@click.option(
    "--address",
    metavar="HOST[:PORT]",
    callback=_address,
    help="Where this machine reaches the API. Default: the endpoint's address; with a jump host, "
    "the local end of a tunnel.",
)
@site_option
@click.pass_obj
def kubeconfig(app: Application, out: Path | None, address: str | None, site: Path) -> None:
    """Print the administrator's kubeconfig for this machine.

    \b
    - the server is named by an address that this machine reaches
    - its certificate is checked by the endpoint's name (tls-server-name)
    - the credentials are those of a control-plane node, read over SSH
    - whoever has the file administers the whole cluster

    --out replaces a file of this command, and never another one. Changes
    nothing at the site.

    Example: appliance kubeconfig --site inventories/rack7 --out rack7.kubeconfig
    """
    from appliance.adapters.kubernetes.connection import admin_kubeconfig as adapter

    connected = app.connect(site)
    own = connected.site
    credentials, source = adapter.find_credentials(own, connected.nodes)
    tunnelled = address is None and own.settings.ssh.jump_host is not None
    given = f"127.0.0.1:{TUNNEL_PORT}" if tunnelled else address
    reach = adapter.find_reach(own, credentials, [given] if given else ())
    text = adapter.text_of(own, credentials, reach.server)
    if out is None:
        click.echo(text, nl=False)
    else:
        adapter.write_kubeconfig(out, text)
    _say_what_it_opens(adapter.holder_of(credentials), source)
    _say_how_to_reach(own, reach, adapter.tunnel_command(own), out)
    _say_what_is_next(out)


def _say_what_it_opens(holder: Holder | None, source: str) -> None:
    who = "the user of its certificate"
    if holder is not None:
        groups = f" of {', '.join(holder.groups)}" if holder.groups else ""
        who = f"{holder.user}{groups}, until {holder.until}"
    click.echo(f"note: credentials of {who}, from {source}", err=True)
    click.echo(
        "note: this file opens the whole cluster, and cannot be revoked before that day: keep it "
        "like a root password",
        err=True,
    )


def _say_how_to_reach(site: Site, reach: Reach, tunnel: str, out: Path | None) -> None:
    """Nothing where the API answers; else the problem, and the command of a tunnel."""
    if not reach.problem:
        return
    if site.settings.ssh.jump_host is None:
        words = ["appliance", "kubeconfig", "--site", str(site.directory)]
        # Without it the key would be printed on the screen.
        words += ["--out", str(out)] if out else []
        again = f"{shlex.join(words)} --address"
        lines = [
            f"warning: {reach.server}: {reach.problem}",
            f"if only SSH reaches the nodes: {again} 127.0.0.1:{TUNNEL_PORT}",
            "and leave this tunnel running:",
        ]
    else:
        lines = [
            f"note: the site has a jump host: {reach.server} is the end of a tunnel",
            "before you use kubectl, leave this running:",
        ]
    for line in (*lines, f"  {tunnel}"):
        click.echo(line, err=True)


def _say_what_is_next(out: Path | None) -> None:
    if out is None:
        return
    kubectl = f"kubectl --kubeconfig {shlex.quote(str(out))} get nodes"
    missing = shutil.which("kubectl") is None
    click.echo(f"{out}: written, mode 0600. Next: {kubectl}")
    if missing:
        click.echo("note: this machine has no kubectl: the bundle has it", err=True)
