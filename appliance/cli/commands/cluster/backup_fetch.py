"""``appliance cluster backup fetch``: backups of nodes, brought to a place for backups."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.cluster.backup import to_option
from appliance.cli.help.complete import node_names
from appliance.cli.options import output_option, site_option
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, print_table, show_warnings
from appliance.cli.screen.terminal import print_line
from appliance.cli.wired.backups import store_of
from appliance.errors import NodeUnreachable, NotHealthy

if TYPE_CHECKING:
    from appliance.adapters.backup.from_nodes import Fetched, OfNode
    from appliance.adapters.backup.on_nodes import OnNode
    from appliance.cli.app import Application
    from appliance.model.site.settings import Node, Site

MOST: int = 100
# A place for fewer is told: a fetch every day fills it within two weeks.
FORESEEN: int = 14


@click.command("fetch")
@to_option
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=node_names,
    help="Only from this control-plane node. Default: all of them.",
)
@click.option(
    "--newest",
    metavar="N",
    type=click.IntRange(1, MOST),
    default=1,
    show_default=True,
    help="So many of the newest whole ones.",
)
@site_option
@output_option
@click.pass_obj
def fetch(
    app: Application, to: str | None, node: str | None, newest: int, site: Path, output: str
) -> None:
    """Copy backups that a timer made on a node to the place for backups.

    \b
    - each is compared with the size and the sha256 that its node wrote down
    - one that is there already stays; a file of another content is never replaced
    - one of another site, one that was interrupted and one that was damaged are named, and left
    - an interrupted copy is no backup: the same command begins it again

    Nothing on the nodes changes. A node cannot open its backups, and holds no site directory: see
    missing in the output of verify.

    Example: appliance cluster backup fetch --newest 3 --to /mnt/backups
    """
    from appliance.adapters.backup.from_nodes import chosen, fetch
    from appliance.adapters.backup.on_nodes import NodeFolder, on_nodes

    connected = app.connect(site)
    asked = _asked(connected.site, node)
    place = store_of(connected.site, to).place
    found = on_nodes(asked, connected.nodes)
    show_warnings([f"not asked: {one.fault}" for one in found if one.fault])
    wanted, left = chosen(found, connected.site.name, newest, connected.clock.now())
    show_warnings([f"left on {one.node}: {one.held.id}: {one.why}" for one in left])
    if not wanted:
        raise _nothing(connected.site, found)
    folders = {one.name: NodeFolder(one, connected.nodes) for one in asked}
    with progress(plain=output == "json") as display:
        done = fetch(wanted, folders, place, display.note)
    if output == "json":
        print_json(_document(done, left, place.told))
    else:
        _show(done, place.told)
    show_warnings(_foreseen(place, done))
    failed = [one.error for one in done if one.error is not None]
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise NotHealthy(
            f"{len(failed)} of {len(done)} backups were not copied to {place.told}",
            details=[one.message for one in failed],
            hint="see each reason above; the same command copies what is still missing",
        )


def _asked(site: Site, name: str | None) -> Sequence[Node]:
    if name is None:
        return site.control_plane
    found = [node for node in site.control_plane if node.name == name]
    if not found:
        known = ", ".join(node.name for node in site.control_plane)
        raise click.UsageError(f"--node: {name} is no control-plane node of the site: {known}")
    return found


def _nothing(site: Site, found: Sequence[OnNode]) -> Exception:
    """Why there is nothing to copy."""
    silent = [one.fault for one in found if one.fault]
    if len(silent) == len(found):
        return NodeUnreachable(silent[0], hint="see the nodes: appliance status")
    names = ", ".join(one.node for one in found if not one.fault)
    wanted = site.settings.backup.schedule if site.settings.backup else None
    return NotHealthy(
        f"no whole backup of {site.name} is on {names}",
        hint="see its last run: appliance status"
        if wanted
        else "no node makes one without backup: schedule; see appliance docs back-up-the-appliance",
    )


def _show(done: Sequence[Fetched], told: str) -> None:
    words = {"fetched": "copied", "there": "there already", "failed": "failed"}
    print_table(
        ("backup", "node", "created", "MB", "keys", "state"),
        [
            (
                one.of.held.id,
                one.of.node,
                one.of.held.created,
                f"{one.of.held.size / 1e6:.1f}",
                str(one.of.held.keys),
                words[one.outcome],
            )
            for one in done
        ],
        spare=("created",),
    )
    whole = [one for one in done if one.error is None]
    if whole:
        print_line(f"place: {told}")
        file = shlex.quote(f"{told}/{whole[-1].of.held.id}.backup")
        say(f"to prove it: appliance cluster backup verify {file} --identity KEY")


def _foreseen(place: Any, done: Sequence[Fetched]) -> list[str]:
    """Say how many more a folder takes: nothing removes what was fetched, and it comes every day.

    A server does not tell how much room it has.
    """
    from appliance.adapters.backup.places import FolderPlace

    whole = [one.of.held for one in done if one.error is None and one.of.held.size]
    if not whole or not isinstance(place, FolderPlace):
        return []
    try:
        more = place.free_bytes() // whole[-1].size
    except OSError:
        return []
    if more >= FORESEEN:
        return []
    return [
        f"{place.told} has room for {more} more backups like {whole[-1].id}, expected {FORESEEN}: "
        "remove fetched ones that are old by hand, each with the file beside it"
    ]


def _document(done: Sequence[Fetched], left: Sequence[OfNode], told: str) -> dict[str, Any]:
    return {
        "place": told,
        "backups": [
            {
                "id": one.of.held.id,
                "node": one.of.node,
                "outcome": one.outcome,
                "size": one.of.held.size,
                "sha256": one.of.held.sidecar.sha256 if one.of.held.sidecar else "",
                "recipients": one.of.held.keys,
                "why": one.error.message if one.error else "",
            }
            for one in done
        ],
        "left": [{"id": one.held.id, "node": one.node, "why": one.why} for one in left],
    }
