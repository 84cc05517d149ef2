"""``appliance cluster restore --only database``: Run:ai's databases, to a chosen backup."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
    from appliance.model.backup.restoring.databases import DatabasePlan
    from appliance.model.site.settings import Site
    from appliance.workflows.cluster.restoring.database import DatabaseResult


@dataclass(frozen=True)
class DatabaseOptions:
    """What was typed: the backup, the key that opens it, and the site."""

    file: str
    identity: Path
    site: Path
    dry_run: bool
    yes: bool
    as_json: bool


def restore_database(app: Application, typed: DatabaseOptions) -> None:
    """Restore Run:ai's databases, and tell how it ended."""
    from appliance.adapters.backup.age import read_identities
    from appliance.cli.wired.backups import local_backup
    from appliance.cli.wired.restore_database import database_ports
    from appliance.workflows.cluster.restoring.database import (
        COMMAND,
        DatabaseRequest,
        restore_databases,
    )

    connected = app.connect(typed.site)
    run = connected.run(COMMAND)
    request = DatabaseRequest(connected.site, run, dry_run=typed.dry_run)
    read_identities(typed.identity)
    with (
        progress(plain=typed.as_json) as display,
        local_backup(connected.site, typed.file, display) as file,
    ):
        ports = database_ports(connected, file, typed.identity)
        done = restore_databases(
            request,
            connected.session(display, run),
            ports,
            lambda plan: _confirm(connected.site, plan, yes=typed.yes),
        )
    if typed.as_json:
        print_json(databases_as_json(done))
    elif typed.dry_run:
        _show(done.plan, err=False)
    else:
        _tell(done)


def _confirm(site: Site, plan: DatabasePlan, *, yes: bool) -> bool:
    return confirmed(yes, about_nodes(site, (plan.node,)), lambda: _show(plan, err=True))


def _show(plan: DatabasePlan, *, err: bool) -> None:
    show_forecast(plan.refusals, plan.lines(), err=err)


def _tell(done: DatabaseResult) -> None:
    plan, seen = done.plan, done.connection
    print_line(f"verified: {', '.join(plan.names)} restored from the backup {plan.backup}")
    print_line(f"recovery point: {plan.recovery}")
    print_line(
        f"recovery time: {done.took_seconds:.0f} s, {done.away_seconds:.0f} s without Run:ai"
    )
    if seen.checked:
        print_line(f"Run:ai: logged in; the cluster is {seen.said}; {seen.projects} projects")
    if not seen.shown:
        told = f"the backend says of the cluster: {seen.said}" if seen.checked else seen.why
        show_warnings([f"a connection was not seen: {told}. Log in, and look at Clusters"])
    for name, kept in done.kept.old.items():
        print_line(f"the old {name} is on the server as {kept}")
    for name in done.kept.removed:
        print_line(f"removed: {name}, which an earlier restore kept")
    print_line(f"dumps of the state before: {plan.folder} on {plan.node}")
    say("once Run:ai is well: remove the dumps; the next restore removes the old databases")


def databases_as_json(done: DatabaseResult) -> dict[str, Any]:
    """What happened, as plain data."""
    plan = done.plan
    return {
        "backup": plan.backup,
        "key": plan.key,
        "node": plan.node,
        "resumes": plan.resumes,
        "recovery_point": plan.point,
        "age_seconds": round(plan.age_seconds),
        "databases": [
            {
                "name": one.name,
                "rows_now": sum(one.present.values()),
                "rows_in_backup": sum(one.saved.values()),
                "lost": dict(one.lost),
            }
            for one in plan.databases
        ],
        "stops": dict(plan.stops or {}),
        "dumps": list(done.dumps),
        "kept": dict(done.kept.old),
        "removed": list(done.kept.removed),
        "connection": asdict(done.connection),
        "refusals": refusals_as_json(plan.refusals),
        "away_seconds": round(done.away_seconds, 1),
        "took_seconds": round(done.took_seconds, 1),
        "done": done.done,
    }
