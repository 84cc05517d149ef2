"""``appliance status``: what is, on one screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.claims_view import doubts_as_json, find_doubts, show_doubts
from appliance.cli.loss_view import find_losses, losses_as_json, show_losses
from appliance.cli.options import output_option, site_option
from appliance.cli.render import print_json
from appliance.cli.status_view import faults_of, removed_sentences, show_status, status_as_json
from appliance.errors import NotHealthy
from appliance.model.maintenance import away

if TYPE_CHECKING:
    from appliance.cli.app import Application


@click.command()
@site_option
@click.option("--exit-code", is_flag=True, help="End with 5 when something is not as it should be.")
@output_option
@click.pass_obj
def status(app: Application, site: Path, exit_code: bool, output: str) -> None:
    """Show what every node is, and what is not as it should be. Changes nothing.

    \b
    - every node is looked at once, over SSH; nodes that do not answer are shown, too
    - the cluster is asked through the control plane
    - a lost node is named: since when, what is stuck on it, which services have no copy left
    - what a Node object says and the control plane's documents do not bear out is doubtful
    - stand-ins of a lab are named, those in the bundle too

    Example: appliance status --site inventories/rack7
    """
    connected = app.connect(site)
    observed, look, plan = connected.look()
    wish, gone = connected.wish, removed_sentences(connected.site, connected.records)
    lost = find_losses(connected, observed, look)
    doubts = find_doubts(connected, observed)
    if output == "json":
        found = status_as_json(wish.site, observed, look, plan, wish.manifest)
        print_json(
            {
                **found,
                "removed": gone,
                "lost": losses_as_json(lost),
                "doubtful": doubts_as_json(doubts),
            }
        )
    else:
        show_status(wish.site, observed, look, plan, wish.manifest)
        show_losses(lost, away(observed.cluster).keys())
        show_doubts(doubts)
        for name, text in gone.items():
            click.echo(f"removed: {name}: {text}")
    faults = [
        *faults_of(look, plan, observed),
        *(f"{doubt.node}: {doubt.text}" for doubt in doubts),
    ]
    if exit_code and faults:
        raise NotHealthy(
            faults[0], hint="see what would mend it: appliance plan", details=faults[1:]
        )
