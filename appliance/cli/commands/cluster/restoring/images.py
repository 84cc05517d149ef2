"""``appliance cluster restore --only images``: what the site's registry lacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.cli.commands.cluster.restore_view import show_forecast
from appliance.cli.screen.confirm import about_nodes, confirmed
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, refusals_as_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.backup.restoring.images import ImagesPlan
    from appliance.model.site.settings import Site
    from appliance.workflows.cluster.restoring.images import ImagesResult

_FEW = 10


@dataclass(frozen=True)
class ImageOptions:
    """What was typed: the backup, the key that opens it, and the site."""

    file: str
    identity: Path
    site: Path
    dry_run: bool
    yes: bool
    as_json: bool


def restore_only_images(app: Application, typed: ImageOptions) -> None:
    """Bring back images that the registry lacks, and tell how it ended."""
    from appliance.cli.wired.backups import opened_backup
    from appliance.cli.wired.images import image_restore_ports
    from appliance.workflows.cluster.restoring.images import (
        COMMAND,
        ImagesRequest,
        restore_images,
    )

    connected = app.connect(typed.site)
    run = connected.run(COMMAND)
    request = ImagesRequest(connected.site, run, dry_run=typed.dry_run)
    with (
        progress(plain=typed.as_json) as display,
        opened_backup(connected.site, typed.file, typed.identity, display) as backup,
    ):
        done = restore_images(
            request,
            connected.session(display, run),
            image_restore_ports(connected, backup),
            lambda plan: _confirm(connected.site, plan, yes=typed.yes),
        )
    if typed.as_json:
        print_json(images_as_json(done))
    elif typed.dry_run:
        _show(done.plan, err=False)
    else:
        _tell(done)


def _confirm(site: Site, plan: ImagesPlan, *, yes: bool) -> bool:
    return confirmed(yes, about_nodes(site, (plan.node,)), lambda: _show(plan, err=True))


def _show(plan: ImagesPlan, *, err: bool) -> None:
    show_forecast(plan.refusals, plan.lines(), err=err)


def _tell(done: ImagesResult) -> None:
    plan = done.plan
    if not plan.lacking:
        print_line(f"nothing to do: the registry on {plan.node} has {plan.there} images")
    else:
        print_line(
            f"verified: the registry on {plan.node} has {len(plan.lacking)} images again, from "
            f"{plan.backup}, {plan.size} bytes, {done.took_seconds:.0f} s"
        )
    for name in done.pushed[:_FEW]:
        print_line(f"pushed: {name}")
    if (more := len(done.pushed) - _FEW) > 0:
        print_line(f"pushed: {more} more")
    for name in plan.others:
        print_line(f"left as it is: {name}: another image has this name")
    for name in plan.broken:
        print_line(f"not brought back: {name}: the backup has it not whole")


def images_as_json(done: ImagesResult) -> dict[str, Any]:
    """What happened, as plain data."""
    plan = done.plan
    return {
        "backup": plan.backup,
        "node": plan.node,
        "recovery_point": plan.point,
        "age_seconds": round(plan.age_seconds),
        "lacking": [one.name for one in plan.lacking],
        "bytes": plan.size,
        "there": plan.there,
        "others": list(plan.others),
        "broken": list(plan.broken),
        "pushed": list(done.pushed),
        "refusals": refusals_as_json(plan.refusals),
        "took_seconds": round(done.took_seconds, 1),
        "done": done.done,
    }
