"""``appliance install``: install or repair an appliance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.install.plan_view import plan_as_json, show_install_plan, show_plan
from appliance.cli.commands.install.scope import lists_steps, scope_of, step_options
from appliance.cli.commands.status.view import show_status
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    nodes_option,
    output_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_site, confirmed
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.model.site.settings import Site
from appliance.model.state.plan import Plan

if TYPE_CHECKING:
    from appliance.cli.app import Application


@click.command()
@changed_site_option
@nodes_option
@step_options
@click.option(
    "--bundle",
    type=Place(file_okay=False),
    help="The bundle directory. Needed until the services node has a copy.",
)
@click.option(
    "--accept-host-keys",
    is_flag=True,
    help="Show host keys that are not in known_hosts yet, and save them after you confirm; "
    "with --dry-run they are trusted for this run only.",
)
@click.option(
    "--new-cluster",
    is_flag=True,
    help="This site's earlier cluster is lost for good: create a new one on empty machines.",
)
@dry_run_option
@yes_option
@output_option
@click.pass_obj
@lists_steps
def install(
    app: Application,
    site: Path,
    nodes: tuple[str, ...],
    only: str | None,
    until: str | None,
    again: bool,
    bundle: Path | None,
    accept_host_keys: bool,
    new_cluster: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Install the appliance on the nodes of a site, or repair it.

    \b
    Each step and its outcome; nothing is changed unless every node passes preflight:
    - STEPS

    Steps for parts that the site does not have (storage, GPUs, Run:ai) are skipped.
    If an install was interrupted, run the same command again: it resumes.
    A new worker that does not answer is left out, and the command exits with 1.

    \b
    Exit codes:
    - 0 done, or nothing to do; 1 started and failed; 130 interrupted
    - nothing was changed: 2 typed wrong, 3 refused, 4 a node is unreachable
    - all of them: appliance docs exit-codes

    Example: appliance install --site inventories/rack7 --bundle /media/bundle
    """
    from appliance.cli.commands.site.host_keys import accept
    from appliance.workflows.session.survey import require_none_left_out

    connected = app.connect(site, bundle, reads_vendor_bundle=True, new_cluster=new_cluster)
    scope = scope_of(connected.site, nodes, only, until, again=again)
    if accept_host_keys:
        trust = connected.nodes.trust if dry_run else None
        accept(connected.site, assume_yes=yes, trust=trust)
    with progress(plain=output == "json") as display:
        done = connected.install(
            scope, display, lambda plan: _confirm(connected.site, plan, yes), dry_run=dry_run
        )
    if output == "json":
        print_json({"plan": plan_as_json(done.plan), "ran": list(done.steps)})
    elif dry_run or not done.plan.steps:
        connected.warn_of_vault(done.plan)
        show_install_plan(done.plan)
    else:
        show_status(connected.load_desired().site, done.observed)
        click.echo(f"verified: {', '.join(done.steps)}", err=True)
    if not dry_run:
        require_none_left_out(done.plan)


def _confirm(site: Site, plan: Plan, yes: bool) -> bool:
    return confirmed(yes, about_site(site), lambda: show_plan(plan, err=True))
