"""``appliance cluster upgrade --abandon``: an upgrade that has changed nothing yet is dropped."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from appliance.cli.screen.confirm import about_nodes, confirmed
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.upgrade.moves.drop import Drop
    from appliance.workflows.cluster.upgrading.drop import DropResult

# What says how an upgrade goes forward.
FORWARD: Final = (
    *("bundles", "max_unavailable", "without", "pause_after", "back", "accept_loss"),
    *("allow_outage", "remove_docker", "without_backup"),
)


def require_alone(context: click.Context) -> None:
    """Refuse options of an upgrade that goes forward.

    Raises:
        click.UsageError: names the first.
    """
    for parameter in context.command.params:
        typed = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in FORWARD and typed:
            raise click.UsageError(f"leave out {parameter.opts[0]}: --abandon drops the upgrade")


def abandon_upgrade(app: Application, site: Path, *, dry_run: bool, yes: bool, output: str) -> None:
    """Show, ask and drop."""
    from appliance.adapters.local.content import list_releases, load_release
    from appliance.adapters.site.settings_choice import choose_release
    from appliance.model.upgrade.path import hop_of
    from appliance.workflows.cluster.upgrade import COMMAND
    from appliance.workflows.cluster.upgrading.drop import DropRequest, drop_upgrade

    connected = app.connect(site)
    desired, run = connected.load_desired(), connected.run(COMMAND)
    hops = {name: hop_of(load_release(name)) for name in list_releases()}

    def confirm(drop: Drop) -> bool:
        about = about_nodes(connected.site, drop.nodes)
        return confirmed(yes, about, lambda: _show(drop, err=True))

    with progress(plain=output == "json") as display:
        session = replace(
            connected.session(display, run),
            upgrade_evidence=connected.upgrade_evidence,
            choose_release=partial(choose_release, connected.site.directory),
        )
        done = drop_upgrade(DropRequest(desired.site, hops, run, dry_run), session, confirm)
    if output == "json":
        print_json(_as_json(done))
    else:
        _tell(done, desired.manifest.release if desired.manifest else "")


def _show(drop: Drop, *, err: bool) -> None:
    print_line(drop.mark.sentence(), err=err)
    print_line(f"nothing of it has begun: {drop.who} runs {drop.before}", err=err)
    print_line(f"site.yml gets: appliance_release: {drop.before}", err=err)
    print_line(f"the mark of the upgrade is removed from {', '.join(drop.nodes)}", err=err)
    if drop.former is not None:
        print_line(f"they get the mark of before again: {drop.former.sentence()}", err=err)


def _tell(done: DropResult, served: str) -> None:
    """Print how it ended; ``served``: the release whose bundle the services node has."""
    if done.drop is None:
        print_line("nothing to do: no upgrade is under way")
        return
    if not done.done:
        _show(done.drop, err=False)
        return
    before = done.drop.before
    print_line(f"verified: the upgrade to {done.drop.mark.release} was dropped")
    print_line(f"site.yml has {before}, which {done.drop.who} runs")
    if served != before:
        say(f"the services node does not serve {before}: appliance install --bundle DIR")
    else:
        say("what is open: appliance plan")


def _as_json(done: DropResult) -> dict[str, object]:
    drop = done.drop
    return {
        "upgrade": drop.mark.sentence() if drop else None,
        "release": drop.before if drop else None,
        "nodes": list(drop.nodes) if drop else [],
        "former": drop.former.sentence() if drop and drop.former else None,
        "done": done.done,
    }
