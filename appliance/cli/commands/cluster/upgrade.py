"""``appliance cluster upgrade``: Kubernetes of another release, node by node."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.batch_options import allow_outage_option, max_unavailable_option
from appliance.cli.commands.cluster.abandon import abandon_upgrade, require_alone
from appliance.cli.commands.cluster.docker import docker_as_json, show_removal
from appliance.cli.commands.cluster.rehearsal import rehearsing
from appliance.cli.commands.cluster.upgrade_view.plan import show_upgrade, upgrade_as_json
from appliance.cli.help.complete import node_names
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    without_backup_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_site, confirmed
from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line
from appliance.model.components.timers.wanted import carrier

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.site.settings import Site
    from appliance.workflows.cluster.docker_removal import RemovalResult
    from appliance.workflows.cluster.upgrading.look import UpgradeResult


@click.command()
@click.option("--to", default="", metavar="RELEASE", help="The release to go to.")
@click.option(
    "--abandon",
    is_flag=True,
    help="Instead of --to: drop an upgrade that has changed nothing yet.",
)
@click.option(
    "--bundle",
    "bundles",
    multiple=True,
    type=Place(file_okay=False),
    help="The bundle of a release on the way. Needed until the services node has a copy. "
    "Repeatable.",
)
@max_unavailable_option
@click.option(
    "--without",
    multiple=True,
    metavar="NODE",
    shell_complete=node_names,
    help="Leave out a worker that is down; status names it until it has the release. Repeatable.",
)
@click.option(
    "--pause-after",
    default="",
    metavar="NODE|RELEASE",
    shell_complete=node_names,
    help="End the run when this node is back, or this release complete; run it again to go on.",
)
@click.option(
    "--back",
    default="",
    metavar="NODE",
    shell_complete=node_names,
    help="Take back what was begun on a node that the upgrade took out, where there is a way back.",
)
@click.option(
    "--accept-loss",
    multiple=True,
    metavar="SETTING",
    help="Give up a setting that kubeadm would drop, or an image, by the name shown. Repeatable.",
)
@allow_outage_option
@click.option(
    "--remove-docker",
    is_flag=True,
    help="When every node has the release: remove the Docker that runs no pods any more.",
)
@without_backup_option
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def upgrade(
    app: Application,
    to: str,
    abandon: bool,
    bundles: tuple[Path, ...],
    max_unavailable: int,
    without: tuple[str, ...],
    pause_after: str,
    back: str,
    accept_loss: tuple[str, ...],
    allow_outage: bool,
    remove_docker: bool,
    without_backup: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Upgrade Kubernetes to another release, node by node.

    \b
    - the path follows from the versions that run, release by release; it is shown first
    - the new release is written into site.yml; until the end, install refuses
    - the bundle goes to the services node, and every node gets the images
    - control-plane nodes one by one, then workers: each is emptied, renewed, tested, returned
    - where a release has containerd, each node changes from Docker while it is empty
    - each step is verified; a node that fails stays out of service, and the rest stops
    - the same command goes on, from any laptop; there is no way back to an older Kubernetes
    - where site.yml has the section backup, the newest backup has to be fresh when it begins
    - --abandon drops an upgrade only while everything says that nothing has begun: it writes
      the release that runs into site.yml, and takes the marks away

    Example: appliance cluster upgrade --to RELEASE --bundle /media/bundle
    """
    from appliance.adapters.local.content import list_releases
    from appliance.model.upgrade.plan import UpgradeOptions
    from appliance.workflows.session.recording import begun

    if abandon is bool(to):
        raise click.UsageError("give either --to RELEASE or --abandon")
    if abandon:
        require_alone(click.get_current_context())
        abandon_upgrade(app, site, dry_run=dry_run, yes=yes, output=output)
        return
    connected = app.connect(site, bundles[0] if bundles else None, app.with_release(to))
    after = "" if pause_after in list_releases() else pause_after
    if back and (back in without or pause_after):
        raise click.UsageError(f"leave out --pause-after, and --without {back}: it goes back")
    named = (*(("--without", name) for name in without), ("--pause-after", after), ("--back", back))
    _require_members(connected.site, named)
    options = UpgradeOptions(to, without, pause_after, max_unavailable, back, without_backup)
    with (
        progress(plain=output == "json") as display,
        closing(connected.drain()) as drain,
        rehearsing(connected, to, accept_loss, dry_run=dry_run) as heard,
    ):
        done = heard(
            connected.upgrade(
                options,
                display,
                drain,
                lambda found: _confirm(connected.site, heard(found), yes),
                more_bundles=bundles[1:],
                accepted=accept_loss,
                allow_outage=allow_outage,
                dry_run=dry_run,
            )
        )
        if output != "json":
            # Before anything else that may fail: this is done.
            _tell(done, connected.site, to, dry_run=dry_run)
        removal = None
        if remove_docker and not done.plan.refusals and (done.ended or not done.plan.steps):
            with begun() if done.done else nullcontext():
                removal = connected.remove_docker(
                    display,
                    lambda found: _confirm_removal(connected.site, found, yes),
                    accepted=accept_loss,
                    dry_run=dry_run,
                )
    if output == "json":
        print_json(
            {**upgrade_as_json(done), **({"docker": docker_as_json(removal)} if removal else {})}
        )
    elif removal:
        show_removal(removal, err=False)


def _require_members(site: Site, named: Iterable[tuple[str, str]]) -> None:
    """Refuse a name of an option that no member has; an empty one names nobody."""
    known = [node.name for node in site.cluster_members]
    for option, name in named:
        if name and name not in known:
            raise click.UsageError(f"{option}: {name} is no member of the site: {', '.join(known)}")


def _confirm_removal(site: Site, found: RemovalResult, yes: bool) -> bool:
    return confirmed(yes, about_site(site), lambda: show_removal(found, err=True))


def _tell(done: UpgradeResult, site: Site, to: str, *, dry_run: bool) -> None:
    if dry_run:
        show_upgrade(done, err=False)
        return
    if not done.done:
        say(f"nothing to do: every node runs {to}")
        return
    if done.plan.steps and done.plan.steps[0].kind == "back":
        print_line(f"taken back: {', '.join(done.plan.steps[0].nodes)} is in service as before")
        say(f"to go on: appliance cluster upgrade --to {to}")
        return
    nodes = dict.fromkeys(name for step in done.plan.steps for name in step.nodes)
    if not done.ended:
        print_line(f"paused after {done.plan.paused_after}: {len(done.plan.rest)} steps are left")
        say(f"to go on: appliance cluster upgrade --to {to}")
        return
    print_line(f"verified: {to} on {', '.join(nodes) or 'every node'}")
    for name in done.plan.without:
        print_line(f"left out: {name}: it does not have {to} yet")
        say_hint(f"when it answers: appliance cluster upgrade --to {to}")
    if site.settings.gpu is not None:
        say("the release's GPU stack, node by node: appliance gpu upgrade")
    if carrier(site) is not None:
        say(
            "the timer's backups still name the release before; so that they name this one: "
            "appliance install --only timers"
        )
    say("what else the release brings: appliance plan")


def _confirm(site: Site, found: UpgradeResult, yes: bool) -> bool:
    return confirmed(yes, about_site(site), lambda: show_upgrade(found, err=True))
