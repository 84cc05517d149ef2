"""``appliance runai cli``: the researchers' own command line, on the jumpboxes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.install.scope import require_nodes
from appliance.cli.options import (
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


@click.group("cli")
def runai_cli() -> None:
    """Let researchers work with the vendor's command line."""


@runai_cli.command("install")
@click.option(
    "-u", "--user", "users", multiple=True, required=True, metavar="USER",
    help="A researcher, by the name on the jumpbox; can be repeated.",
)  # fmt: skip
@click.option(
    "--cli", "file", type=click.Path(path_type=Path, dir_okay=False),
    help="The program runai for Linux. Default: the vendor bundle's, or what is there.",
)  # fmt: skip
@click.option(
    "--replace", is_flag=True, help="Put a kubeconfig aside that is not from this tool."
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
    """Bring runai, its completion, kubectl and kubeconfigs to the jumpboxes.

    What will happen on the inventory's jumpboxes, or on the nodes named:

    \b
    - the program becomes /usr/local/bin/runai, and writes its own completion for bash
    - kubectl comes from the site's bundle where there is none
    - each user gets ~/.kube/config, 0600, without any credential: runai login brings it
    - refused, before any change, for a user who does not exist, or a kubeconfig of another kind

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
            replace=replace,
            dry_run=dry_run,
        )
    if dry_run or not done.plan.changes:
        tell(_notes(done.plan))
    if not app.asks_for_access(site):
        click.echo(
            "note: no login works before: appliance runai access enable "
            "(and runai.access.enabled: true in site.yml)",
            err=True,
        )
    if output == "json":
        changes = [{"node": one.node, "text": one.text} for one in done.plan.changes]
        print_json({"changes": changes, "done": done.done})
        return
    for line in _lines(done.plan) or ["nothing to do: the jumpboxes are so already"]:
        click.echo(line)


def _confirm(site: Site, plan: CliPlan, yes: bool) -> bool:
    about = [*about_nodes(site, plan.nodes), *_notes(plan)]
    return confirmed(yes, about, lambda: tell(_lines(plan)))


def _notes(plan: CliPlan) -> list[str]:
    """What to know before: told in the question, and where there is none."""
    return [f"note: {notice.node}: {notice.text}" for notice in plan.notices]


def _lines(plan: CliPlan) -> list[str]:
    return [f"{change.node}: {change.text}" for change in plan.changes]


def _enabled(site: Site) -> Site:
    """The site as if it asked for access: a kubeconfig names the login."""
    from appliance.model.components.access.oidc import with_access

    return with_access(site)
