"""``appliance cluster restore --only volumes``: the data of volumes, to a chosen backup."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.cli.commands.cluster.restore_view import show_forecast
from appliance.cli.screen.confirm import about_nodes, confirmed
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, refusals_as_json, show_warnings
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.backup.volumes.restore import VolumeRestorePlan
    from appliance.model.site.settings import Site
    from appliance.workflows.cluster.restoring.volumes import VolumeResult


@dataclass(frozen=True)
class VolumeOptions:
    """What was typed: the backup, the key that opens it, the claims, and the site."""

    file: str
    identity: Path
    site: Path
    names: tuple[str, ...]
    dry_run: bool
    yes: bool
    as_json: bool


def restore_only_volumes(app: Application, typed: VolumeOptions) -> None:
    """Restore the data of volumes, and tell how it ended."""
    from appliance.adapters.backup.age import read_identities
    from appliance.cli.wired.backups import local_backup
    from appliance.cli.wired.volumes import volume_restore_ports
    from appliance.workflows.cluster.restoring.volumes import (
        COMMAND,
        VolumeRequest,
        restore_volumes,
    )

    connected = app.connect(typed.site)
    run = connected.run(COMMAND)
    request = VolumeRequest(connected.site, run, typed.names, dry_run=typed.dry_run)
    read_identities(typed.identity)
    with (
        progress(plain=typed.as_json) as display,
        local_backup(connected.site, typed.file, display) as file,
    ):
        ports = volume_restore_ports(connected, file, typed.identity)
        done = restore_volumes(
            request,
            connected.session(display, run),
            ports,
            lambda plan: _confirm(connected.site, plan, yes=typed.yes),
        )
    if typed.as_json:
        print_json(volumes_as_json(done))
    elif typed.dry_run:
        _show(done.plan, err=False)
    else:
        _tell(done)
    show_warnings(done.early)


def _confirm(site: Site, plan: VolumeRestorePlan, *, yes: bool) -> bool:
    return confirmed(yes, about_nodes(site, (plan.node,)), lambda: _show(plan, err=True))


def _show(plan: VolumeRestorePlan, *, err: bool) -> None:
    show_forecast(plan.refusals, plan.lines(), err=err)


def _tell(done: VolumeResult) -> None:
    plan = done.plan
    names = ", ".join(one.claim for one in plan.targets)
    print_line(f"verified: {names} restored from the backup {plan.backup}")
    print_line(f"recovery point: {plan.recovery}")
    print_line(f"recovery time: {done.took_seconds:.0f} s")
    for one in plan.targets:
        print_line(f"{one.claim}: {one.record.sentence()}")
        if one.claim in done.kept:
            print_line(f"what was there: {done.kept[one.claim]} in the export on {plan.node}")
    say("start what uses them again; once all is well, remove the old folders by hand")


def volumes_as_json(done: VolumeResult) -> dict[str, Any]:
    """What happened, as plain data."""
    plan = done.plan
    return {
        "backup": plan.backup,
        "key": plan.key,
        "node": plan.node,
        "resumes": plan.resumes,
        "recovery_point": plan.point,
        "age_seconds": round(plan.age_seconds),
        "volumes": [
            {
                "claim": one.claim,
                "folder": one.folder,
                "bytes": one.record.bytes,
                "entries": one.record.entries,
                "digest": one.record.digest,
                "changed_while_read": one.record.changed,
                "made_again": one.made_again,
                "users": [user.pod for user in one.users],
                "kept": done.kept.get(one.claim),
            }
            for one in plan.targets
        ],
        "early": list(done.early),
        "kept_before": list(plan.kept),
        "refusals": refusals_as_json(plan.refusals),
        "took_seconds": round(done.took_seconds, 1),
        "done": done.done,
    }
