"""``appliance site adopt``: continue where another laptop stopped."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import output_option, site_option
from appliance.cli.screen.render import print_json

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.site.adopt import AdoptResult


@click.command()
@site_option
@output_option
@click.pass_obj
def adopt(app: Application, site: Path, output: str) -> None:
    """Fetch the records of other laptops from the nodes, and name unfinished work.

    \b
    - fetches step records, passports and node facts into .appliance/; overwrites none
    - names the operator who is at work now, or the command that resumes unfinished work
    - changes nothing on the nodes

    Example: appliance site adopt --site inventories/rack7
    """
    from appliance.workflows.site.adopt import site_adopt

    connected = app.connect(site)
    session = replace(
        connected.session(run=connected.run("site adopt")),
        records=connected.records(),
    )
    adopted = site_adopt(session)
    for sentence in adopted.skipped:
        click.echo(f"warning: skipped {sentence}", err=True)
    if output == "json":
        print_json(_as_json(adopted))
        return
    click.echo(f"{adopted.records} records and {len(adopted.documents)} other documents are new")
    _show(adopted, site)


def _show(adopted: AdoptResult, site: Path) -> None:
    unfinished, at_work = adopted.handover.unfinished, adopted.handover.at_work
    where = f" --site {shlex.quote(str(site))}"
    if at_work is not None:
        click.echo(f"running:    {at_work.sentence()}")
        click.echo("next:       wait until it has finished; the site is locked until then")
    elif unfinished is not None:
        click.echo(f"unfinished: {unfinished.sentence}")
        click.echo(f"next:       appliance {shlex.join(unfinished.words)}{where}")
    else:
        click.echo("unfinished: nothing in the records")
        click.echo(f"next:       appliance plan{where}")


def _as_json(adopted: AdoptResult) -> dict[str, object]:
    unfinished, at_work = adopted.handover.unfinished, adopted.handover.at_work
    return {
        "records": adopted.records,
        "documents": list(adopted.documents),
        "skipped": list(adopted.skipped),
        "unfinished": unfinished
        and {
            "run": unfinished.run,
            "sentence": unfinished.sentence,
            "command": list(unfinished.words),
        },
        "at_work": at_work
        and {
            "run": at_work.run,
            "command": at_work.command,
            "operator": at_work.operator,
            "host": at_work.host,
            "reason": at_work.reason,
            "since": at_work.since,
        },
    }
