"""``appliance runai cli``: the researchers' own command line, on the jumpboxes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.install.scope import require_nodes
from appliance.cli.help.typos import Nouns
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    nodes_option,
    output_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_nodes, confirmed, tell
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.model.site.settings import Site

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.components.access.runai_cli import CliPlan


@click.group("cli", cls=Nouns)
def runai_cli() -> None:
    """Give researchers Run:ai's command line."""


@runai_cli.command("install")
@click.option(
    "-u", "--user", "users", multiple=True, required=True, metavar="USER",
    help="A researcher's user name on the jumpbox; repeatable.",
)  # fmt: skip
@click.option(
    "--cli", "file", type=Place(dir_okay=False),
    help="The program runai for Linux. Default: from the vendor bundle, or the installed one.",
)  # fmt: skip
@click.option(
    "--replace", is_flag=True, help="Move a kubeconfig aside that this tool did not write."
)  # fmt: skip
@nodes_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def install_cli(
    app: Application,
    users: tuple[str, ...],
    file: Path | None,
    nodes: tuple[str, ...],
    site: Path,
    output: str,
    *,
    replace: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Install runai, its completion, kubectl and kubeconfigs on the jumpboxes.

    What will happen on the inventory's jumpboxes, or on the nodes named:

    \b
    - the program is installed as /usr/local/bin/runai, with its completion for bash
    - kubectl is installed from the site's bundle where it is missing
    - each user gets ~/.kube/config, 0600, without credentials: 'runai login' adds them
    - refused, before any change, if a user does not exist or has a kubeconfig from elsewhere

    Example: appliance runai cli install --cli runai --user ada --user grace
    """
    connected = app.connect(site, changed=_enabled)
    require_nodes(connected.site, nodes)
    with progress(plain=output == "json") as display:
        done = connected.install_runai_cli(
            (nodes, tuple(dict.fromkeys(users))),
            file,
            display,
            lambda plan: _confirm(connected.site, plan, yes),
            replaces=replace,
            dry_run=dry_run,
        )
    if dry_run or not done.plan.changes:
        tell(_notes(done.plan))
    if not app.asks_for_access(site):
        click.echo(
            "note: logins fail until you run: appliance runai access enable "
            "(and set runai.access.enabled: true in site.yml)",
            err=True,
        )
    if output == "json":
        changes = [{"node": one.node, "text": one.text} for one in done.plan.changes]
        print_json({"changes": changes, "done": done.done})
        return
    for line in _lines(done.plan) or ["nothing to do: the jumpboxes already have all of this"]:
        click.echo(line)


def _confirm(site: Site, plan: CliPlan, yes: bool) -> bool:
    about = [*about_nodes(site, plan.nodes), *_notes(plan)]
    return confirmed(yes, about, lambda: tell(_lines(plan)))


def _notes(plan: CliPlan) -> list[str]:
    """Notes, shown with the question or, without a question, alone."""
    return [f"note: {notice.node}: {notice.text}" for notice in plan.notices]


def _lines(plan: CliPlan) -> list[str]:
    return [f"{change.node}: {change.text}" for change in plan.changes]


def _enabled(site: Site) -> Site:
    """The site with access enabled: a kubeconfig contains the login."""
    from appliance.model.components.access.oidc import with_access

    return with_access(site)
