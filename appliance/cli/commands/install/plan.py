"""``appliance plan``: what ``install`` would do."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.install.plan_view import plan_as_json, show_install_plan
from appliance.cli.commands.install.scope import scope_of, step_options
from appliance.cli.options import Place, nodes_option, output_option, site_option
from appliance.cli.screen.hints import say
from appliance.cli.screen.render import print_json
from appliance.cli.screen.retype import typed
from appliance.errors import NotHealthy

if TYPE_CHECKING:
    from appliance.cli.app import Application


def _install(bundle: Path | None, *, asks_for_bundle: bool) -> str:
    """The command that does what this plan shows."""
    words = [word for word in typed("plan", sys.argv[1:]) if word != "--exit-code"]
    if bundle is not None:
        words += ["--bundle", str(bundle)]
    options = " ".join(["", *map(shlex.quote, words)])
    return f"appliance install{options}{' --bundle DIR' if asks_for_bundle else ''}"


@click.command()
@site_option
@nodes_option
@step_options
@click.option("--bundle", type=Place(file_okay=False), help="The bundle directory.")
@click.option("--exit-code", is_flag=True, help="Exit with 5 if there is something to do.")
@output_option
@click.pass_obj
def plan(
    app: Application,
    site: Path,
    nodes: tuple[str, ...],
    only: str | None,
    until: str | None,
    again: bool,
    bundle: Path | None,
    exit_code: bool,
    output: str,
) -> None:
    """Show what install would do, and why. Changes nothing.

    \b
    - every node is inspected once, over SSH
    - the needed steps are listed with their reasons
    - everything that prevents an install is listed with a hint

    Example: appliance plan --site inventories/rack7
    """
    from appliance.workflows.site.bundle_at_hand import is_bundle_copied

    connected = app.connect(site, bundle, reads_vendor_bundle=True)
    survey = connected.survey(scope_of(connected.site, nodes, only, until, again=again))
    found = survey.plan
    connected.warn_of_vault(found)
    if output == "json":
        print_json(plan_as_json(found))
    else:
        show_install_plan(found)
        if found.steps and not found.refusals:
            desired = connected.load_desired()
            asks = bundle is None and (
                desired.manifest is None or is_bundle_copied(survey, desired)
            )
            say(f"next: {_install(bundle, asks_for_bundle=asks)}")
    if exit_code and not found.steps and found.left_out:
        raise NotHealthy(f"left out: {found.left_out[0].reason}", hint=found.left_out[0].hint)
    if exit_code and found.steps:
        raise NotHealthy(
            f"steps to run: {', '.join(step.name for step in found.steps)}",
            hint="run them: appliance install",
        )
