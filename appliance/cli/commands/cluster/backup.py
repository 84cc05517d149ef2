"""``appliance cluster backup``: make, check and list backups of the whole appliance."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from appliance.cli.help.typos import Nouns
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    site_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_site, confirmed, tell
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, print_table, show_warnings
from appliance.cli.screen.terminal import print_line
from appliance.cli.wired.backups import backup_session, settings_of, store_of, verify
from appliance.model.backup.names import IMAGES

if TYPE_CHECKING:
    from appliance.adapters.backup.on_nodes import OnNode
    from appliance.cli.app import Application
    from appliance.model.backup.holdings import Held
    from appliance.model.backup.record import About, Missing, Sidecar
    from appliance.model.site.settings import Site


@click.group(cls=Nouns)
def backup() -> None:
    """Make, check and list backups of the whole appliance."""


def _folders(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders of this machine; a place elsewhere is typed."""
    return [CompletionItem(incomplete, type="dir")]


def _files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files of this machine; one in a place elsewhere is typed."""
    return [CompletionItem(incomplete, type="file")]


to_option = click.option(
    "--to",
    metavar="PLACE",
    help="A folder, sftp://USER@HOST/PATH or s3://BUCKET/PREFIX. Default: backup: to in site.yml.",
    shell_complete=_folders,
)


@backup.command()
@to_option
@click.option(
    "--volume",
    "volume",
    multiple=True,
    metavar="NAMESPACE/CLAIM",
    help="Save the data of this claim's volume, too. Repeatable.",
)
@click.option(
    "--volumes",
    "all_volumes",
    is_flag=True,
    help="Save the data of every claim on the NFS export that a node of the site serves.",
)
@click.option(
    "--images",
    is_flag=True,
    help="Save the images of the registry that the site's services node runs, each blob once.",
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def create(
    app: Application,
    to: str | None,
    volume: tuple[str, ...],
    site: Path,
    output: str,
    *,
    all_volumes: bool,
    images: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Save the whole appliance in one encrypted file.

    \b
    - etcd by a snapshot that is restored once on its node; /etc/kubernetes of each control plane,
      keys and certificates, the site's directory, the journal and passports
    - encrypted on this machine to the public keys of backup: recipients; no node can open it
    - what does not answer is named; without a snapshot of etcd there is no backup
    - data of volumes only where asked, as a crash would leave it: pods go on writing
    - images only where asked; refused where they do not fit into a folder of this machine
    - older ones go by backup: keep, once the new one was read again and is whole

    Nothing on the nodes changes. An interrupted run leaves no backup; run it again.

    Example: appliance cluster backup create --to /mnt/backups
    """
    from appliance import __version__
    from appliance.cli.wired.images import image_sources
    from appliance.cli.wired.volumes import volume_sources, volumes_asked
    from appliance.model.backup.retention import Keep
    from appliance.workflows.cluster.backup import COMMAND, BackupRequest, create_backup

    connected = app.connect(site)
    wanted = settings_of(connected.site)
    store, run = store_of(connected.site, to), connected.run(COMMAND)
    keep = Keep(wanted.keep.count, wanted.keep.days)
    asked = volumes_asked(volume, to or wanted.to, everything=all_volumes)
    who = (connected.site, run, wanted.recipients, keep, __version__)
    request = BackupRequest(*who, dry_run=dry_run, volumes=asked)
    volumes = volume_sources(connected) if volume or all_volumes else None
    registry = image_sources(connected) if images else None

    def confirm(lines: Sequence[str]) -> bool:
        return confirmed(yes, about_site(connected.site), lambda: tell(lines))

    with progress(plain=output == "json") as display:
        session = backup_session(connected, store, display, run)
        done = create_backup(request, session, confirm, volumes, registry)
    show_warnings([f"not removed: {one}" for one in done.stayed])
    if output == "json":
        made = None if done.sidecar is None else _plain(done.sidecar)
        print_json({"planned": list(done.planned), "backup": made, "removed": list(done.removed)})
    elif done.sidecar is None:
        for line in done.planned:
            print_line(line)
    else:
        about = done.sidecar.about
        print_line(f"backup: {about.id}, {done.sidecar.size} bytes, {done.took_seconds:.0f} s")
        _show_missing(about.missing)
        file = shlex.quote(f"{store.told}/{about.id}.backup")
        say(f"to prove it: appliance cluster backup verify {file}")


@backup.command("verify")
@click.argument("file", shell_complete=_files)
@click.option(
    "--identity",
    type=Place(exists=True, dir_okay=False),
    metavar="KEY",
    help="The file of a key that opens it: checks every part, restores etcd and databases once.",
)
@site_option
@output_option
@click.pass_obj
def verify_command(
    app: Application, file: str, identity: Path | None, site: Path, output: str
) -> None:
    """Check that a backup is whole; with a key, that it can be restored.

    FILE is on this machine, or sftp://USER@HOST/PATH/NAME.backup or s3://BUCKET/PREFIX/NAME.backup:
    with a key it is copied here for as long as the command runs.

    \b
    - without a key: size and sha256 against the file beside it and the journal of the site
    - with --identity: every part against the manifest; the snapshot of etcd is restored in a
      scratch instance on the first control-plane node, and revision, keys and digest are compared;
      each image's blobs have the digests of their names;
      where the journal knows the file, each database of Run:ai is restored in a scratch database,
      and the rows of every table, their digest and the definitions are compared

    What was restored goes again; the cluster's own is not touched. Exit code 5: not whole.

    Example: appliance cluster backup verify /mnt/backups/rack7-20261127T023000Z.backup
    """
    connected = app.connect(site)
    with progress(plain=output == "json") as display:
        found = verify(connected, file, identity, display)
    if not found.known:
        show_warnings(
            ["the journal of this site does not know its sha256: it may be from somebody else"]
        )
    manifest = found.manifest
    if output == "json":
        parts = None if manifest is None else len(manifest.parts)
        more = {"known": found.known, "parts": parts, "restored": list(found.restored)}
        print_json({**_plain(found.sidecar), **more})
        return
    about = found.sidecar.about
    print_line(f"verified: {about.id}: {found.sidecar.size} bytes, sha256 {found.sidecar.sha256}")
    if manifest is not None:
        print_line(f"parts: {len(manifest.parts)}, each with the sha256 of the manifest")
    for line in found.restored:
        print_line(line)
    _show_missing(about.missing)
    if manifest is None:
        say("to prove that it can be restored: the same with --identity KEY")


@backup.command("list")
@to_option
@site_option
@output_option
@click.pass_obj
def list_command(app: Application, to: str | None, site: Path, output: str) -> None:
    """List the backups of a place, the oldest first. Needs no key.

    Tells whole ones from those that were interrupted or damaged, by the file beside each. Where
    backup: schedule is in site.yml, those on control-plane nodes are listed, too; backup fetch
    copies them.

    Example: appliance cluster backup list --to /mnt/backups
    """
    own = app.site(site)
    found = store_of(own, to).held()
    there = () if to else _on_nodes(app, own, site)
    if output == "json":
        more = [{**_held(one), "node": place.node} for place in there for one in place.held]
        print_json({"backups": [*(_held(one) for one in found), *more]})
        return
    rows = [("", one) for one in found]
    rows += [(place.node, one) for place in there for one in place.held]
    print_table(
        ("backup", "site", "created", "Kubernetes", "MB", "keys", "state"),
        [
            (
                one.id,
                _of(one, "site"),
                one.created,
                _of(one, "kubernetes"),
                f"{one.size / 1e6:.1f}",
                str(one.keys or ""),
                f"on {node}: {_state(one)}" if node else _state(one),
            )
            for node, one in rows
        ],
        spare=("created",),
    )


def _on_nodes(app: Application, own: Site, site: Path) -> Sequence[OnNode]:
    """What a timer made on nodes, where the site has a schedule; a silent node is named."""
    if own.settings.backup is None or own.settings.backup.schedule is None:
        return ()
    from appliance.adapters.backup.on_nodes import on_nodes

    connected = app.connect(site)
    found = on_nodes(connected.site.control_plane, connected.nodes)
    show_warnings([f"not listed: {place.fault}" for place in found if place.fault])
    return found


@backup.command()
@click.argument("file", type=Place())
@output_option
def key(file: Path, output: str) -> None:
    """Make a key that opens backups, and print its public key.

    The public key goes into backup: recipients of site.yml. The file goes off this machine, to
    where it is found when everything else is gone. Make a second one for escrow.

    Example: appliance cluster backup key backup-key.txt
    """
    from appliance.adapters.backup.key_file import write_key

    public = write_key(file)
    if output == "json":
        print_json({"public_key": public, "file": str(file)})
        return
    print_line(public)
    say(f"{file} opens every backup for this key: keep it away from the nodes, and keep a copy")


def _show_missing(missing: Sequence[Missing]) -> None:
    for one in missing:
        print_line(f"missing: {one.where}: {one.what}: {one.why}")


def _state(one: Held) -> str:
    missing = len(one.sidecar.about.missing) if one.sidecar else 0
    told = f", without {missing} parts" if missing and one.state == "whole" else ""
    if one.sidecar and IMAGES in one.sidecar.about.kinds and one.state == "whole":
        told = f", with images{told}"
    return f"{one.state}{told}" + (f": {one.why}" if one.why else "")


def _of(one: Held, what: str) -> str:
    return str(getattr(one.sidecar.about, what)) if one.sidecar else ""


def _held(one: Held) -> dict[str, Any]:
    plain: dict[str, Any] = {"id": one.id, "state": one.state, "size": one.size, "why": one.why}
    return {**plain, **({} if one.sidecar is None else _about(one.sidecar.about))}


def _plain(sidecar: Sidecar) -> dict[str, Any]:
    return {**_about(sidecar.about), "size": sidecar.size, "sha256": sidecar.sha256}


def _about(about: About) -> dict[str, Any]:
    missing = [{"where": one.where, "what": one.what, "why": one.why} for one in about.missing]
    return {
        "id": about.id,
        "site": about.site,
        "created": about.created,
        "release": about.release,
        "kubernetes": about.kubernetes,
        "kinds": list(about.kinds),
        "recipients": len(about.recipients),
        "missing": missing,
    }
