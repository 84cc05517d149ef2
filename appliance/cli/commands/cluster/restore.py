"""``appliance cluster restore``: a lost cluster from a backup, or from the node that is left."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from appliance.cli.commands.cluster.restore_view import restore_as_json, show_forecast
from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Words
from appliance.cli.options import (
    BackupFile,
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_nodes, confirmed
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.backup.restore import RestorePlan
    from appliance.model.site.settings import Site
    from appliance.workflows.cluster.restore import RestoreResult


@click.command("restore", short_help="Restore a lost cluster from a backup.")
@click.argument("file", metavar="[FILE]", type=BackupFile(dir_okay=False), required=False)
@click.option(
    "--identity",
    type=Place(dir_okay=False, exists=True),
    metavar="KEY",
    help="The private key that opens FILE: of age, or an OpenSSH ed25519 key.",
)
@click.option(
    "--survivor",
    metavar="NODE",
    shell_complete=node_names,
    help="Without FILE: make a cluster of this one of three control-plane nodes, from its data.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NODE",
    shell_complete=node_names,
    help="Leave out a control-plane node that is lost; it rejoins later. Repeatable.",
)
@click.option(
    "--only",
    type=Words(["database", "images", "volumes"]),
    help="Of a living cluster, from FILE alone: Run:ai's databases, images that the registry "
    "lacks, or the data of volumes.",
)
@click.option(
    "--volume",
    "volume",
    multiple=True,
    metavar="NAMESPACE/CLAIM",
    help="With --only volumes: this one. Repeatable. Default: all that FILE has.",
)
@click.option(
    "--new-machines",
    is_flag=True,
    help="Every machine is lost: write FILE's site where there is none; else make its cluster on "
    "new machines of the same names and addresses.",
)
@click.option(
    "--bundle",
    type=Place(file_okay=False),
    help="With --new-machines: the bundle directory.",
)
@click.option(
    "--accept-host-keys",
    is_flag=True,
    help="With --new-machines: show the host keys of the new machines, and save them after you "
    "confirm.",
)
@click.option(
    "--expect-host-key",
    "expected_keys",
    multiple=True,
    metavar="FINGERPRINT",
    help="With --accept-host-keys: the fingerprint (SHA256:...) that a machine's console shows; "
    "others are refused. --yes needs one for each. Repeatable.",
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def restore(
    app: Application,
    file: str | None,
    identity: Path | None,
    survivor: str | None,
    without: tuple[str, ...],
    only: str | None,
    volume: tuple[str, ...],
    site: Path,
    bundle: Path | None,
    expected_keys: tuple[str, ...],
    output: str,
    *,
    new_machines: bool,
    accept_host_keys: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Restore etcd of all control-plane nodes from FILE, a backup of this site.

    FILE is on this machine, or sftp://USER@HOST/PATH/NAME.backup or s3://BUCKET/PREFIX/NAME.backup:
    then it is copied here for as long as the command runs.

    \b
    - refused, before any change, while the cluster answers, or where FILE is of another site,
      of another release, of a later tool, damaged or interrupted
    - what was changed after the backup is lost; the recovery point is shown first
    - the whole control plane is away for minutes; running pods stay, those that watch the API
      restart
    - old data of etcd is kept on its node, under a name that is printed
    - a second run goes on where the first was interrupted

    With --only database, of a cluster that lives, Run:ai's databases alone:

    \b
    - refused unless the database server runs, Run:ai has the version that FILE has, and the
      journal of the site knows FILE
    - the present state is dumped first; each dump of FILE is restored beside its database
    - Run:ai's backend stops for minutes while they are exchanged; the old ones are kept

    With --only volumes, of a cluster that lives, the data of volumes alone:

    \b
    - refused while a pod uses one of the claims
    - each becomes a new folder beside the present one, is compared, and takes its name
    - the present folders are kept in the export, under names that say when

    With --only images, of a cluster that lives, the images of a backup with images:

    \b
    - refused where the journal of the site does not know FILE, or the services node has no room
    - only what the site's registry lacks or has damaged is pushed, and compared
    - a name that is another image by now is left as it is, and named

    In a bare lab like the site (appliance lab up --like SITE --bare), --new-machines rehearses it:
    see appliance docs rehearse-a-restore.

    --dry-run exits with 0 also where the plan is refused; its last line says so.

    Example: appliance cluster restore rack7-20260301T020000Z.backup --identity rack7.key
    """
    from appliance.cli.commands.cluster.new_machines import (
        NewMachinesOptions,
        restore_onto_new_machines,
    )
    from appliance.cli.wired.backups import opened_backup
    from appliance.cli.wired.restore import restore_ports
    from appliance.model.backup.restore import RestoreOptions
    from appliance.workflows.cluster.restore import COMMAND, RestoreRequest, cluster_restore

    _require_one_source(file, identity, survivor, without)
    _require_volumes(only, volume)
    opened = (file, identity) if file is not None and identity is not None else None
    if new_machines:
        if opened is None or without or only:
            raise click.UsageError("--new-machines takes FILE and --identity KEY, nothing else")
        restore_onto_new_machines(
            app,
            NewMachinesOptions(
                *opened,
                site,
                bundle,
                accept_host_keys=accept_host_keys,
                expected_keys=expected_keys,
                dry_run=dry_run,
                yes=yes,
                as_json=output == "json",
            ),
        )
        return
    if bundle is not None or accept_host_keys or expected_keys:
        raise click.UsageError("--bundle and options of host keys belong to --new-machines")
    if only is not None:
        if opened is None or without:
            raise click.UsageError(f"--only {only} takes FILE and --identity KEY, no --without")
        how = _How(dry_run=dry_run, yes=yes, as_json=output == "json")
        _restore_only(app, only, (*opened, site), volume, how)
        return
    connected = app.connect(site)
    _require_control_plane(connected.site, survivor, without)
    options = RestoreOptions(without, survivor or "")
    request = RestoreRequest(connected.site, connected.run(COMMAND), options, dry_run=dry_run)
    with (
        progress(plain=output == "json") as display,
        opened_backup(connected.site, *opened, display) if opened else nullcontext() as backup,
    ):
        session, ports = restore_ports(connected, display, request, backup)
        done = cluster_restore(
            request, session, ports, lambda plan: _confirm(connected.site, plan, yes)
        )
    if output == "json":
        print_json(restore_as_json(done))
    elif dry_run:
        _show(done.plan, err=False)
    else:
        _tell(done)


class _How(TypedDict):
    dry_run: bool
    yes: bool
    as_json: bool


def _restore_only(
    app: Application,
    only: str,
    given: tuple[str, Path, Path],
    names: tuple[str, ...],
    how: _How,
) -> None:
    """Restore one thing of a living cluster; given: the file, its key, and the site."""
    from appliance.cli.commands.cluster.restoring.database import DatabaseOptions, restore_database
    from appliance.cli.commands.cluster.restoring.images import ImageOptions, restore_only_images
    from appliance.cli.commands.cluster.restoring.volumes import VolumeOptions, restore_only_volumes

    if only == "images":
        restore_only_images(app, ImageOptions(*given, **how))
    elif only == "volumes":
        restore_only_volumes(app, VolumeOptions(*given, names, **how))
    else:
        restore_database(app, DatabaseOptions(*given, **how))


def _require_volumes(only: str | None, names: tuple[str, ...]) -> None:
    if names and only != "volumes":
        raise click.UsageError("--volume belongs to --only volumes")


def _require_one_source(
    file: str | None, identity: Path | None, survivor: str | None, without: tuple[str, ...]
) -> None:
    if (file is None) == (survivor is None):
        raise click.UsageError("give FILE, or --survivor NODE: one of both")
    if file is not None and identity is None:
        raise click.UsageError("FILE is encrypted: give --identity KEY")
    if survivor is not None and without:
        raise click.UsageError("--survivor leaves out every other node: --without is not needed")


def _require_control_plane(site: Site, survivor: str | None, without: tuple[str, ...]) -> None:
    known = [node.name for node in site.control_plane]
    for option, name in [("--survivor", survivor), *(("--without", one) for one in without)]:
        if name is not None and name not in known:
            raise click.UsageError(
                f"{option}: {name} is no control-plane node of the site: {', '.join(known)}"
            )


def _confirm(site: Site, plan: RestorePlan, yes: bool) -> bool:
    return confirmed(yes, about_nodes(site, tuple(plan.members)), lambda: _show(plan, err=True))


def _show(plan: RestorePlan, *, err: bool) -> None:
    show_forecast(plan.refusals, plan.lines(), err=err)


def _tell(done: RestoreResult) -> None:
    plan = done.plan
    print_line(f"verified: etcd restored on {', '.join(plan.members)} from {plan.source}")
    print_line(f"recovery point: {plan.recovery}")
    print_line(f"recovery time: {done.took_seconds:.0f} s")
    if plan.kept:
        print_line(
            f"old data of etcd: {plan.aside} (or in /var/lib/etcd) on {', '.join(plan.kept)}"
        )
    if done.compared:
        print_line(f"compared: all {plan.content['keys']} keys are those of the backup")
    for name in done.away:
        print_line(f"not reached: {name}: restart its kubelet when it answers")
    for name in done.gone:
        print_line(f"not Ready, or not of the site: {name}")
    for name in plan.rejoin:
        say(
            f"next: wipe {name} before it is on again, as it may have old data of etcd; then: "
            f"appliance node rejoin {name}"
        )
