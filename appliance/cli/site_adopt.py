"""``appliance site adopt``: go on where another laptop stopped."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import output_option, site_option
from appliance.cli.render import print_json

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.site_adopt import Adopted


@click.command()
@site_option
@output_option
@click.pass_obj
def adopt(app: Application, site: Path, output: str) -> None:
    """Fetch from the nodes what other laptops did, and say what was left half-done.

    \b
    - records of finished steps, passports of nodes and photographs come into .appliance/;
      what is there already stays
    - who is at work at this moment, or which command goes on where one stopped
    - nothing on a node is changed

    Example: appliance site adopt --site inventories/rack7
    """
    from appliance.adapters.journal import journal_of
    from appliance.adapters.kept_documents import KeptDocuments
    from appliance.adapters.lease import SiteLease, holder_of
    from appliance.workflows.site_adopt import AdoptPorts, site_adopt

    connected = app.connect(site)
    me = holder_of(connected.run("site adopt"), "")
    ports = AdoptPorts(
        connected.archive,
        journal_of(connected.site.directory),
        KeptDocuments(connected.site.state_directory),
        SiteLease(connected.site, connected.nodes, me, connected.looking_since, click.echo),
    )
    adopted = site_adopt(ports)
    for sentence in adopted.skipped:
        click.echo(f"warning: skipped {sentence}", err=True)
    if output == "json":
        print_json(_as_json(adopted))
        return
    click.echo(f"{adopted.records} records and {len(adopted.documents)} other documents are new")
    _show(adopted, site)


def _show(adopted: Adopted, site: Path) -> None:
    left, at_work = adopted.handover.unfinished, adopted.handover.at_work
    where = f" --site {shlex.quote(str(site))}"
    if at_work is not None:
        click.echo(f"at work:    {at_work.sentence()}")
        click.echo("next:       wait for it; the site is locked until then")
    elif left is not None:
        click.echo(f"half-done:  {left.sentence}")
        click.echo(f"next:       appliance {shlex.join(left.words)}{where}")
    else:
        click.echo("half-done:  nothing that is recorded")
        click.echo(f"next:       appliance plan{where}")


def _as_json(adopted: Adopted) -> dict[str, object]:
    left, at_work = adopted.handover.unfinished, adopted.handover.at_work
    return {
        "records": adopted.records,
        "documents": list(adopted.documents),
        "skipped": list(adopted.skipped),
        "unfinished": left
        and {"run": left.run, "sentence": left.sentence, "command": list(left.words)},
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
