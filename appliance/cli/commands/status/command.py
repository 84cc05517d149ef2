"""``appliance status``: the current state on one screen, once or again and again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.node.claims_view import doubts_as_json, show_doubts
from appliance.cli.commands.node.lost_view import lost_nodes_as_json, show_lost_nodes
from appliance.cli.commands.status.verdict import Verdict, verdict_of
from appliance.cli.commands.status.view import removed_sentences, show_status, status_as_json
from appliance.cli.options import output_option, site_option
from appliance.cli.screen.hints import say
from appliance.cli.screen.interrupts import Terminated
from appliance.cli.screen.render import print_json, show_warnings
from appliance.cli.screen.terminal import clear_screen, is_unread
from appliance.errors import Interrupted, NotHealthy
from appliance.model.state.nodes.node_state import in_maintenance

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.status import StatusResult

# Seconds between two looks: each one runs a program on every node.
SHORTEST, USUAL, LONGEST = 2, 10, 3600


@click.command()
@site_option
@click.option("--exit-code", is_flag=True, help="Exit with 5 if something needs attention.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=str(USUAL),
    type=click.IntRange(SHORTEST, LONGEST),
    metavar="[SECONDS]",
    help=f"Look again every SECONDS ({SHORTEST} to {LONGEST}; {USUAL} without a number), until "
    "Ctrl-C.",
)
@output_option
@click.pass_obj
def status(app: Application, site: Path, exit_code: bool, watch: int | None, output: str) -> None:
    """Show the state of every node, and what needs attention. Changes nothing.

    \b
    - every node is inspected once, over SSH; unreachable nodes are shown too
    - the state of the cluster comes from the Kubernetes API
    - lost: since when, what is stuck on the node, which services have no copy left
    - doubtful: an annotation on a Node that no record on the control plane confirms
    - stand-in: a part of a lab or of its bundle that replaces a real component
    - the last line is the verdict: healthy, or the faults and the next command
    - with --watch a terminal is drawn again at each look; a pipe gets one block a look

    Example: appliance status --site inventories/rack7
    """
    if watch is not None:
        if exit_code:
            raise click.UsageError("--watch and --exit-code exclude each other: use one of them")
        _watch(app, site, output, watch)
        return
    verdict = _look(app, site, output)
    if exit_code and verdict.faults:
        first, *others = verdict.faults
        raise NotHealthy(first, hint=verdict.next, details=others)


def _look(app: Application, site: Path, output: str, *, drawn_again: int | None = None) -> Verdict:
    """Look once and print the result; ``drawn_again``: seconds until the next look."""
    from appliance.adapters.local.rack_record import RackFile
    from appliance.workflows import status as workflow

    connected = app.connect(site)
    request = workflow.StatusRequest(
        connected.site, connected.load_desired(), connected.read_records()
    )
    found = workflow.status(request, connected.session())
    if drawn_again is not None:
        connected.nodes.close()
        clear_screen()
    mark = RackFile(connected.site.state_directory).read()
    show_warnings((*found.warnings, *((mark.sentence(),) if mark else ())))
    verdict = verdict_of(found)
    if output == "json":
        print_json(_as_json(found, verdict))
        return verdict
    if drawn_again is not None:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        click.echo(f"{now}, every {drawn_again} s; Ctrl-C ends this")
    _show(found)
    say(verdict.sentence())
    return verdict


def _watch(app: Application, site: Path, output: str, seconds: int) -> None:
    """Look again and again, while somebody reads it; Ctrl-C is the ordinary end."""
    try:
        while not is_unread():
            _look(app, site, output, drawn_again=seconds)
            time.sleep(seconds)
            click.echo()
    except Terminated:
        raise
    except KeyboardInterrupt:
        click.echo(err=True)
        raise click.exceptions.Exit(Interrupted.exit_code) from None


def _show(found: StatusResult) -> None:
    site = found.desired.site
    show_status(site, found.observed, found.look, found.plan, found.desired.manifest)
    show_lost_nodes(found.losses, in_maintenance(site, found.observed))
    show_doubts(found.doubts)
    for view in found.timers:
        say(view.sentence(found.now))
    for finding in found.timer_findings:
        say(f"{finding.sentence()}; next: {finding.hint}")
    for name, text in removed_sentences(found.removed).items():
        say(f"removed: {name}: {text}")


def _as_json(found: StatusResult, verdict: Verdict) -> dict[str, object]:
    shown = status_as_json(
        found.desired.site, found.observed, found.look, found.plan, found.desired.manifest
    )
    timers = [
        {"node": one.node, "timer": one.timer, "last_done": one.last, "told": one.told}
        for one in found.timers
    ]
    return {
        **shown,
        **({"timers": timers} if timers else {}),
        "removed": removed_sentences(found.removed),
        "lost": lost_nodes_as_json(found.losses),
        "doubtful": doubts_as_json(found.doubts),
        "verdict": verdict.word,
        "faults": list(verdict.faults),
        "next": verdict.next,
    }
