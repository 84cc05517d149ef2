"""``appliance status``: the current state on one screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.node.claims_view import doubts_as_json, show_doubts
from appliance.cli.node.lost_view import lost_nodes_as_json, show_lost_nodes
from appliance.cli.options import output_option, site_option
from appliance.cli.screen.render import print_json, show_warnings
from appliance.cli.status.view import faults_of, removed_sentences, show_status, status_as_json
from appliance.errors import NotHealthy
from appliance.model.state.node_state import in_maintenance

if TYPE_CHECKING:
    from appliance.cli.app import Application


@click.command()
@site_option
@click.option("--exit-code", is_flag=True, help="Exit with 5 if something needs attention.")
@output_option
@click.pass_obj
def status(app: Application, site: Path, exit_code: bool, output: str) -> None:
    """Show the state of every node, and what needs attention. Changes nothing.

    \b
    - every node is inspected once, over SSH; unreachable nodes are shown too
    - the state of the cluster comes from the Kubernetes API
    - lost: since when, what is stuck on the node, which services have no copy left
    - doubtful: an annotation on a Node that no record on the control plane confirms
    - stand-in: a part of a lab or of its bundle that replaces a real component

    Example: appliance status --site inventories/rack7
    """
    from appliance.workflows import status as workflow

    connected = app.connect(site)
    request = workflow.StatusRequest(
        connected.site, connected.load_desired(), connected.read_records()
    )
    found = workflow.status(request, connected.session())
    show_warnings(found.warnings)
    gone = removed_sentences(found.removed)
    if output == "json":
        shown = status_as_json(
            found.desired.site, found.observed, found.look, found.plan, found.desired.manifest
        )
        print_json(
            {
                **shown,
                "removed": gone,
                "lost": lost_nodes_as_json(found.losses),
                "doubtful": doubts_as_json(found.doubts),
            }
        )
    else:
        show_status(
            found.desired.site, found.observed, found.look, found.plan, found.desired.manifest
        )
        show_lost_nodes(found.losses, in_maintenance(found.desired.site, found.observed))
        show_doubts(found.doubts)
        for name, text in gone.items():
            click.echo(f"removed: {name}: {text}")
    faults = [
        *faults_of(found.desired.site, found.look, found.plan, found.observed),
        *(f"{doubt.node}: {doubt.text}" for doubt in found.doubts),
    ]
    if exit_code and faults:
        raise NotHealthy(
            faults[0], hint="see which steps would fix this: appliance plan", details=faults[1:]
        )
