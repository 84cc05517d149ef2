"""``appliance site packages``: what the nodes have, for a bundle with updates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import Place, site_option
from appliance.errors import NodeUnreachable

if TYPE_CHECKING:
    from appliance.cli.app import Application


@click.command(short_help="List the packages of every node, for a bundle with updates.")
@click.option("--out", type=Place(dir_okay=False), help="File to write. Default: standard output.")
@site_option
@click.pass_obj
def packages(app: Application, out: Path | None, site: Path) -> None:
    """List the packages of every node, for a bundle with updates.

    The list is one JSON document, for 'bundle build --installed' on the build
    machine. Nothing is changed.

    \b
    - every member of the cluster and the services node are asked, over SSH
    - the list has names of nodes, kernels, packages, versions and holds
    - it has no address and no secret of the site

    Example: appliance site packages --site inventories/rack7 --out packages.json
    """
    from datetime import UTC, datetime

    from appliance.adapters.bundle.installed import write_installed
    from appliance.model.bundle.installed import KIND, InstalledList
    from appliance.model.patch.plan import patched_nodes
    from appliance.model.patch.state import NodeState

    connected = app.connect(site)
    found = connected.packages().read(patched_nodes(connected.site))
    silent = [state for state in found.values() if not isinstance(state, NodeState)]
    if silent:
        raise NodeUnreachable(
            f"{silent[0].node}: {silent[0].reason.removeprefix(silent[0].node + ': ')}",
            hint=silent[0].hint,
            details=[one.reason for one in silent[1:]],
        )
    states = [state for state in found.values() if isinstance(state, NodeState)]
    listed = InstalledList(
        KIND,
        connected.site.settings.operating_system,
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tuple(state.as_installed() for state in states),
    )
    if out is None:
        click.echo(listed.text(), nl=False)
    else:
        write_installed(out, listed)
    click.echo(
        f"note: {len(states)} nodes with {listed.os}; on the build machine: "
        f"appliance bundle build --updates-since DATE --installed {out or 'LIST'}",
        err=True,
    )
    for state in states:
        if state.foreign:
            click.echo(
                f"note: {state.node}: {state.foreign} packages of another architecture are not "
                "listed, and get no update",
                err=True,
            )
