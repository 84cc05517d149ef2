"""``appliance history``: what ran here, when, why, by whom, with which evidence."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import output_option, site_option
from appliance.cli.screen.hints import say
from appliance.cli.screen.render import print_json, print_table
from appliance.cli.screen.terminal import one_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.state.journal import Record


@click.command()
@site_option
@click.option(
    "--last", type=click.IntRange(min=1), default=50, show_default=True, help="How many steps."
)
@output_option
@click.pass_obj
def history(app: Application, site: Path, last: int, output: str) -> None:
    """Show the finished steps of this site, oldest first. Changes nothing.

    \b
    - each row is one step: when (UTC), how long, on which nodes, with which outcome
    - below the table: why a step failed, and the log of its run on this machine
    - the JSON also has the reasons, and the digests of the facts before and after
    - an unreadable record is skipped with a warning
    - to include steps that other laptops ran, first: appliance site adopt

    Example: appliance history --site inventories/rack7 --last 10
    """
    journal = app.journal(site)
    for sentence in journal.skipped():
        click.echo(f"warning: {sentence}; skipped", err=True)
    records = journal.read(limit=last)
    if output == "json":
        print_json([record.as_json() for record in records])
        return
    if not records:
        say("nothing ran here yet; to see what would run first: appliance plan")
        return
    print_table(
        ["started", "run", "command", "step", "nodes", "took", "outcome", "operator", "host"],
        [
            [
                _at(record.started),
                record.run[-8:],
                record.command,
                record.step,
                ", ".join(record.nodes),
                f"{record.took_seconds:.1f} s",
                record.outcome,
                record.operator,
                record.host,
            ]
            for record in records
        ],
        spare=("run", "host"),
    )
    for record in records:
        if record.outcome != "verified":
            _show_failure(site, record)


def _show_failure(site: Path, record: Record) -> None:
    """Print why a step was not verified, and where the whole log is."""
    from appliance.adapters.site.state import run_log

    why = one_line(record.error or "no reason was recorded")
    click.echo(f"{record.outcome}: {_at(record.started)} {record.command}, {record.step}: {why}")
    log = run_log(site, record.run, record.step)
    ran_here = record.host == socket.gethostname()
    elsewhere = f"none on this machine; the command ran on {record.host}"
    lost = "not on this machine any more" if ran_here else elsewhere
    click.echo(f"   log: {log or lost}")


def _at(started: str) -> str:
    """The time in UTC to the second: date and time are words of their own, for a narrow screen."""
    return started.removesuffix("+00:00").partition(".")[0].replace("T", " ", 1)
