"""``appliance cluster cleanup``: free the disks of what nothing needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.help.typos import Words
from appliance.cli.options import changed_site_option, dry_run_option, output_option, yes_option
from appliance.cli.screen.confirm import about_site, confirmed
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line
from appliance.model.components.base.subject import size
from appliance.model.upkeep.care.items import AREAS, Item, total

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.cluster.cleanup import CleanupResult

# Lines of one area that are shown; the JSON has all of them.
MOST_LINES = 40


@click.command()
@click.option(
    "--only",
    "only",
    multiple=True,
    type=Words(AREAS),
    help="Clean up one area alone; repeatable.",
)
@click.option(
    "--keep-release",
    multiple=True,
    metavar="RELEASE",
    help="Keep the bundle and the images of a release, e.g. of a backup elsewhere; repeatable.",
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def cleanup(
    app: Application,
    only: tuple[str, ...],
    keep_release: tuple[str, ...],
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Free the disks of what nothing needs: etcd, registry, mirror, images, records.

    The plan shows each thing, its size, why it goes or why it stays. Then:

    \b
    - etcd: a snapshot; then one member at a time is defragmented, the leader last, only while all
      are healthy; the alarm NOSPACE is healed; each member is silent for seconds
    - registry: images that only earlier bundles list; it takes no pushes while it frees blobs
    - mirror: bundles that are neither served nor the one before
    - images: the same images on nodes, where no container uses them
    - records: folders of runs on this machine that were verified and are old; the journal stays
    - what a node, a pod, a backup or a rollback needs stays; where that is unknown, all stays

    The same command ends what a killed one began.

    Example: appliance cluster cleanup --dry-run
    """
    from appliance.cli.wired.care import care_ports
    from appliance.workflows.cluster.cleanup import COMMAND, CleanupRequest, cleanup

    connected = app.connect(site)
    desired = connected.load_desired()
    areas = tuple(area for area in AREAS if area in only) if only else AREAS
    run = connected.run(COMMAND, desired.bundle_digest)
    request = CleanupRequest(desired, run, areas, frozenset(keep_release), dry_run)

    def confirm(found: CleanupResult) -> bool:
        return confirmed(yes, about_site(connected.site), lambda: _show(found.items, err=True))

    with progress(plain=output == "json", title=f"appliance {COMMAND}") as display:
        session = connected.session(display, run, plays=True)
        session = replace(session, care=care_ports(connected))
        done = cleanup(request, session, connected.opened(confirm))
    if output == "json":
        print_json(_as_json(done))
    elif done.done:
        for area, freed in done.freed.items():
            print_line(f"{area}: freed {size(freed)}")
    else:
        _show(done.items, err=False)
        if not done.due:
            say("nothing to do: nothing goes")


def _show(items: Sequence[Item], *, err: bool) -> None:
    for area in AREAS:
        ours = [one for one in items if one.area == area]
        for goes in (True, False):
            some = [one for one in ours if one.goes is goes]
            for one in some[:MOST_LINES]:
                fate = "goes" if goes else "stays"
                print_line(f"{area}: {one.node}: {one.what}: {_size(one)}: {fate}", err=err)
                print_line(f"   because {one.why}", err=err)
            if len(some) > MOST_LINES:
                rest = some[MOST_LINES:]
                print_line(f"{area}: and {len(rest)} more, {size(total(rest))}", err=err)
    due = [one for one in items if one.goes]
    if due:
        print_line(f"{len(due)} things go, at most {size(total(due))}", err=err)


def _size(one: Item) -> str:
    return "unknown size" if one.size_bytes is None else size(one.size_bytes)


def _as_json(done: CleanupResult) -> dict[str, Any]:
    return {
        "items": [
            {
                "area": one.area,
                "node": one.node,
                "what": one.what,
                "bytes": one.size_bytes,
                "goes": one.goes,
                "why": one.why,
            }
            for one in done.items
        ],
        "freed": dict(done.freed),
        "done": done.done,
    }
