"""``appliance hardware burn-in``: nodes under load for hours, and what they counted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.hardware.reader import burn_ins_of
from appliance.cli.help.complete import node_names
from appliance.cli.options import changed_site_option, dry_run_option, output_option, yes_option
from appliance.cli.screen.confirm import about_nodes, confirmed, tell
from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, print_table, show_warnings
from appliance.cli.screen.terminal import print_line
from appliance.errors import Interrupted, NotHealthy

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.checks.hardware.findings import Finding
    from appliance.workflows.hardware.burn_in import BurnInResult, NodeBurnIn

MOST_HOURS = 72.0
EVERY_SECONDS = 60.0


@click.command("burn-in")
@click.argument("nodes", metavar="[NODE]...", nargs=-1, shell_complete=node_names)
@click.option(
    "--hours",
    type=click.FloatRange(0.0, MOST_HOURS, min_open=True),
    help="Start where none is recorded, and let it run this long; at most 72.",
)
@click.option(
    "--memory",
    type=click.FloatRange(0.0, min_open=True),
    metavar="GIB",
    help="With --hours: at most this much memory of each node. Default: half of what is free.",
)
@click.option("--again", is_flag=True, help="With --hours: also where one is recorded already.")
@click.option("--end", is_flag=True, help="Stop what runs; what was counted is kept.")
@click.option("--watch", is_flag=True, help="Stay, and look each minute until all have ended.")
@click.option("--all", "every", is_flag=True, help="Print facts that passed, too.")
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def burn_in(
    app: Application,
    nodes: tuple[str, ...],
    hours: float | None,
    memory: float | None,
    again: bool,
    end: bool,
    watch: bool,
    every: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Load nodes for hours, and show what they counted meanwhile.

    \b
    - each node loads itself, by a unit of systemd that ends in time: this machine may be off
    - processors, half of the free memory, a file of at most 2 GiB, and the network between nodes
    - each minute: temperatures, throttling, ECC, machine checks, the kernel's log, disks, GPUs
    - refused on a node of a running cluster unless it is in maintenance and has no pods
    - without --hours and --end it only looks and keeps the records, from any machine
    - a record is kept by serial, and judged by 'hardware qualify'

    Without NODE: all nodes. Example: appliance hardware burn-in gpu1 gpu2 --hours 8
    """
    from appliance.workflows.hardware import burn_in as workflow
    from appliance.workflows.hardware.qualify import asked_nodes

    _require_finite({"--hours": hours, "--memory": memory})
    _require_one_meaning(hours, end=end, more={"--again": again, "--memory": memory is not None})
    connected = app.connect(site)
    asked = tuple(asked_nodes(connected.site, nodes))
    run = connected.run(workflow.COMMAND)
    request = workflow.BurnInRequest(
        connected.site, asked, run, hours, memory, again=again, end=end, dry_run=dry_run
    )
    burn_ins = burn_ins_of(connected)

    def confirm(said: Sequence[str]) -> bool:
        about = about_nodes(connected.site, [node.name for node in asked])
        return confirmed(yes, about, lambda: tell(said))

    try:
        with progress(plain=output == "json") as display, closing(connected.drain()) as drain:
            session = replace(connected.session(display, run), drain=drain)
            found = workflow.burn_in(request, session, burn_ins, confirm)
        while watch and not dry_run and _running(found):
            _tell_of_progress(found)
            connected.clock.sleep(EVERY_SECONDS)
            found = workflow.collect(request, connected.session(), burn_ins)
    except (KeyboardInterrupt, Interrupted):
        _tell_how_to_go_on(nodes)
        raise
    show_warnings(found.missed)
    _show(found, output, every=every)
    _require_pass(found)


def _require_finite(numbers: Mapping[str, float | None]) -> None:
    """Refuse nan, which is in every range, and inf."""
    for name, number in numbers.items():
        if number is not None and not isfinite(number):
            raise click.UsageError(f"{name} is no finite number")


def _require_one_meaning(hours: float | None, *, end: bool, more: Mapping[str, bool]) -> None:
    if hours is not None and end:
        raise click.UsageError("--hours and --end exclude each other")
    for name in (name for name, given in more.items() if given and hours is None):
        raise click.UsageError(f"{name} needs --hours")


def _running(found: BurnInResult) -> list[str]:
    return [one.node for one in found.nodes if one.record and one.record.status == "running"]


def _tell_of_progress(found: BurnInResult) -> None:
    from appliance.model.checks.hardware.trials.burn_in_judged import span

    for one in found.nodes:
        if one.record is not None:
            state = one.record.burn_in
            took = f"{span(state.seconds)} of {span(state.wanted_seconds)}"
            print_line(f"{one.node}: {one.record.status}, {took}", err=True)


def _tell_how_to_go_on(nodes: Sequence[str]) -> None:
    """Ctrl-C ends this command alone."""
    words = " ".join(("appliance hardware burn-in", *nodes))
    print_line("what was started on the nodes goes on without this machine", err=True)
    say_hint(f"look at it: {words}", err=True)
    say_hint(f"end it: {words} --end", err=True)


def _findings(one: NodeBurnIn) -> tuple[Finding, ...]:
    from appliance.model.checks.hardware.findings import worst_first
    from appliance.model.checks.hardware.trials.burn_in_judged import burn_in as judge

    return worst_first(judge(one.record)) if one.record is not None else ()


def _show(found: BurnInResult, output: str, *, every: bool) -> None:
    if output == "json":
        print_json(
            {
                "changed": found.done,
                "planned": list(found.planned),
                "nodes": [_plain(one) for one in found.nodes],
            }
        )
        return
    for text in () if found.done else found.planned:
        print_line(text)
    lines = [
        (one.node, fact.verdict.value, fact.fact, fact.expected, fact.found, fact.action)
        for one in found.nodes
        for fact in _findings(one)
        if every or fact.verdict.value != "pass"
    ]
    if lines:
        columns = ("node", "verdict", "fact", "expected", "found", "what to do")
        print_table(columns, lines, spare=("what to do",))
    print_table(("node", "serial", "state", "time", "verdict", "facts"), list(_rows(found)))
    if _running(found):
        say("it goes on without this machine; to look again: appliance hardware burn-in")
        say("to end it: appliance hardware burn-in --end")


def _rows(found: BurnInResult) -> Iterator[tuple[str, ...]]:
    from appliance.model.checks.hardware.findings import overall
    from appliance.model.checks.hardware.page import counted
    from appliance.model.checks.hardware.trials.burn_in_judged import span

    for one in found.nodes:
        if one.record is None:
            yield (one.node, "-", one.reason or "none", "-", "-", "-")
            continue
        state, facts = one.record.burn_in, _findings(one)
        took = f"{span(state.seconds)} of {span(state.wanted_seconds)}"
        serial = state.machine.serial or "unknown"
        verdict = overall(facts).value
        yield (one.node, serial, one.record.status, took, verdict, counted(facts))


def _plain(one: NodeBurnIn) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "node": one.node,
        "reason": one.reason or None,
        "record": one.record.model_dump(mode="json", by_alias=True) if one.record else None,
        "findings": [{**asdict(fact), "verdict": fact.verdict.value} for fact in _findings(one)],
    }


def _require_pass(found: BurnInResult) -> None:
    """Raise for what failed, and for what ended and is unknown; what runs is not judged yet."""
    from appliance.model.checks.hardware.findings import Verdict

    bad = []
    for one in found.nodes:
        running = one.record is not None and one.record.status == "running"
        verdicts = (Verdict.FAIL,) if running else (Verdict.FAIL, Verdict.UNKNOWN)
        first = next((fact for fact in _findings(one) if fact.verdict in verdicts), None)
        if one.reason:
            bad.append((f"{one.node}: it did not answer: {one.reason}", "appliance status"))
        elif first is not None:
            words = f"{one.node}: {first.fact}: found {first.found}, expected {first.expected}"
            bad.append((words, first.action))
    if bad:
        raise NotHealthy(bad[0][0], hint=bad[0][1], details=[words for words, _ in bad[1:]])
