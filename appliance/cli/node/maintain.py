"""``appliance node maintain`` and ``appliance node return``."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.install.scope import node_of
from appliance.cli.options import changed_site_option, dry_run_option, output_option, yes_option
from appliance.cli.screen.confirm import about_machine, confirmed, tell
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, print_table
from appliance.model.state.gpu_labels import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.cli.app import Application
    from appliance.model.node.answering import Answering
    from appliance.model.node.drain import Forecast
    from appliance.model.state.facts.hardware import Difference
    from appliance.model.state.maintenance import Maintenance
    from appliance.workflows.node.maintain import MaintainResult
    from appliance.workflows.node.return_ import ReturnResult

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
    """A time such as ``90m``, ``4h`` or ``2d`` in seconds; None stays None."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)([smhd])", value)
    if not found:
        raise click.BadParameter(f"{value!r} is no time; write for example 90m, 4h or 2d")
    return float(found[1]) * UNITS[found[2]]


@click.command("maintain")
@click.argument("name", metavar="NODE")
@click.option("--reason", default="", help="Why, for whoever finds the node cordoned.")
@click.option(
    "--window", callback=seconds, metavar="TIME", help="After which it is to be back: 90m, 4h, 2d."
)
@click.option(
    "--mode",
    type=click.Choice(["taint", "cordon"]),
    default="taint",
    show_default=True,
    help="Whether the node gets the taint runai=drain:NoExecute beside the cordon.",
)
@click.option("--shutdown", is_flag=True, help="Power it off at the end, cleanly, by SSH.")
@click.option("--lost", is_flag=True, help="It does not answer: taint it without its help.")
@click.option("--allow-outage", is_flag=True, help="Go on although a service will be away.")
@click.option(
    "--budget-wait",
    callback=seconds,
    metavar="TIME",
    default="60s",
    show_default=True,
    help="How long a PodDisruptionBudget may hold the eviction up.",
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def maintain(
    app: Application,
    name: str,
    reason: str,
    window: float | None,
    mode: Any,
    shutdown: bool,
    lost: bool,
    allow_outage: bool,
    budget_wait: float,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Take a node out of service for planned work, or mark one that is lost.

    What will happen, after a forecast of who is moved and who stands in the way:

    \b
    - its facts are kept, to compare when it comes back
    - it is cordoned, and its pods are evicted one by one; budgets are kept
    - only when it is empty it gets the taint runai=drain:NoExecute (--mode taint)
    - with --shutdown it is powered off
    - if a step fails, or you press Ctrl-C, what was changed is put back

    With --lost nothing can be evicted: the taint deletes its pods past every budget.

    Example: appliance node maintain gpu2 --reason "new riser" --window 4h --shutdown
    """
    from appliance.model.state.facts.identity import MachineIdentity
    from appliance.workflows.node.maintain import node_maintain
    from appliance.workflows.node.maintain_again import MaintainRequest

    if lost and (shutdown or mode == "cordon"):
        raise click.UsageError("--lost takes neither --shutdown nor --mode cordon")
    connected = app.connect(site)
    node = node_of(connected.site, name)
    run = connected.run("node maintain")
    request = MaintainRequest(
        site=connected.site,
        node=node,
        run=run,
        reason=reason,
        window_seconds=window,
        mode=mode,
        shutdown=shutdown,
        lost=lost,
        allow_outage=allow_outage,
        dry_run=dry_run,
        budget_seconds=budget_wait,
    )

    def confirm(foreseen: Forecast, last_time: str, machine: Answering) -> bool:
        said = _forecast_lines(foreseen, last_time, lost=lost)
        return confirmed(yes, [*about_machine(connected.site, machine), *said], lambda: None)

    def accepted() -> MachineIdentity:
        passport = connected.passport(name)
        return passport.machine if passport else MachineIdentity()

    with (
        progress(plain=output == "json", title=f"appliance {run.command} {name}") as display,
        closing(connected.drain()) as drain,
    ):
        session = replace(
            connected.session(display, run, reason),
            drain=drain,
            power=connected.power(),
            bmcs=connected.bmcs(),
        )
        done = node_maintain(request, session, accepted, confirm)
    _show_maintained(name, done, output, dry_run=dry_run)


def _forecast_lines(foreseen: Forecast, last_time: str = "", *, lost: bool = False) -> list[str]:
    pods = len(foreseen.evicted)
    lines = [f"{foreseen.node}: {pods} pod{'' if pods == 1 else 's'} will go"]
    if lost:
        lines.append(
            f"{foreseen.node}: --lost: its pods are deleted past every budget, and stay "
            "Terminating until the node is back or removed"
        )
    lines += [f"  {concern.severity}: {concern.sentence()}" for concern in foreseen.concerns]
    lines += [
        f"  ends: {pod.where}: DaemonSet {pod.owner[1] if pod.owner else ''} does not tolerate "
        "the taint; it is back with the node"
        for pod in foreseen.ended_by_taint
    ]
    lines += [
        f"  {'GPUs' if name == WHOLE else name} left to jobs meanwhile: "
        f"{foreseen.devices_left.get(name, 0)} of {count}"
        for name, count in sorted(foreseen.devices_now.items())
        if count
    ]
    lines.append(f"  a pod may take up to {foreseen.grace_seconds} s to end")
    if last_time:
        lines.append(f"  {last_time}")
    return lines


def _show_maintained(name: str, done: MaintainResult, output: str, *, dry_run: bool) -> None:
    mark = done.maintenance
    if output == "json":
        print_json(
            {
                "node": name,
                "changed": not (dry_run or done.already),
                "forecast": _forecast_as_json(done.forecast),
                "maintenance": None if mark is None else mark_as_json(mark),
                "evict_seconds": done.evict_seconds,
                "powered_off": done.off or None,
            }
        )
        return
    if mark is None:
        click.echo("\n".join(_forecast_lines(done.forecast)))
        return
    if done.already:
        click.echo(f"nothing to do: {name} is {mark.sentence()}")
    else:
        took = "" if done.evict_seconds is None else f" (eviction: {done.evict_seconds:.1f} s)"
        click.echo(f"{name} is {mark.sentence()}{took}")
    if done.off:
        click.echo(f"{name} is powered off (seen: {done.off})")
    if not done.already:
        click.echo(f"when the work is done: appliance node return {name}")


def _forecast_as_json(foreseen: Forecast) -> dict[str, Any]:
    return {
        "evicted": [pod.where for pod in foreseen.evicted],
        "ended_by_taint": [pod.where for pod in foreseen.ended_by_taint],
        "concerns": [
            {"severity": c.severity, "about": c.about, "text": c.text} for c in foreseen.concerns
        ],
        "gpus_left": foreseen.gpus_left,
        "gpus_now": foreseen.gpus_now,
        "devices_left": dict(foreseen.devices_left),
        "devices_now": dict(foreseen.devices_now),
        "grace_seconds": foreseen.grace_seconds,
    }


def mark_as_json(mark: Maintenance) -> dict[str, Any]:
    """The maintenance as plain data; the keys are a contract."""
    keys = ("run", "by", "host", "since", "until", "reason", "mode", "phase", "lost")
    return {key: getattr(mark, key) for key in keys}


@click.command("return")
@click.argument("name", metavar="NODE")
@click.option(
    "--acknowledge",
    multiple=True,
    metavar="FINDING",
    help="Accept that this is not as it was, e.g. dimm:A1. Can be given again.",
)
@click.option(
    "--wait",
    callback=seconds,
    metavar="TIME",
    default="10m",
    show_default=True,
    help="How long the node may take to answer.",
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def return_(
    app: Application,
    name: str,
    acknowledge: tuple[str, ...],
    wait: float,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Bring a node back into service after maintenance.

    What will happen:

    \b
    - its facts are compared with those taken before: memory, disks, links,
      GPUs, PCIe lanes, kernel, driver, mounts, clock; a loss is refused unless acknowledged
    - our taint is taken away; the pod network and the GPU stack come back
    - a pod on it tests its network, and lists its GPUs
    - only then it is uncordoned, if the cordon was ours

    Example: appliance node return gpu2
    """
    from appliance.workflows.node.return_ import ReturnRequest, node_return

    connected = app.connect(site)
    node = node_of(connected.site, name)
    run = connected.run("node return")
    request = ReturnRequest(
        desired=connected.load_desired(),
        node=node,
        run=run,
        acknowledged=frozenset(acknowledge),
        wait_seconds=wait,
        dry_run=dry_run,
    )

    found: list[Difference] = []

    def confirm(mark: Maintenance, differences: Sequence[Difference], machine: Answering) -> bool:
        said = [
            f"{name} is {mark.sentence()}; it goes back into service",
            *(f"  {difference.sentence()}" for difference in differences),
        ]
        return confirmed(yes, about_machine(connected.site, machine), lambda: tell(said))

    with (
        progress(plain=output == "json", title=f"appliance {run.command} {name}") as display,
        closing(connected.drain()) as drain,
    ):
        session = replace(connected.session(display, run), drain=drain)
        try:
            done = node_return(request, session, confirm, found.extend)
        finally:
            if output == "table":
                _show_differences(found)
    _show_returned(name, done, output, dry_run=dry_run)


def _show_differences(differences: Sequence[Difference]) -> None:
    if differences:
        rows = [(d.name, d.before or "-", d.seen or "-") for d in differences]
        print_table(("fact", "before", "now"), rows)


def _show_returned(name: str, done: ReturnResult, output: str, *, dry_run: bool) -> None:
    if output == "json":
        print_json(
            {
                "node": name,
                "changed": done.maintenance is not None and not dry_run,
                "differences": [
                    {"name": d.name, "before": d.before, "now": d.seen} for d in done.differences
                ],
                "overrun_seconds": done.overrun_seconds,
                "took_seconds": done.took_seconds,
            }
        )
        return
    if done.maintenance is None:
        click.echo(f"nothing to do: {name} is in service")
        return
    _show_differences(done.differences)
    if dry_run:
        click.echo(f"{name} is {done.maintenance.sentence()}; nothing was changed")
        return
    click.echo(f"{name} is back in service after {done.took_seconds or 0:.1f} s")
    if done.overrun_seconds and done.overrun_seconds > 0:
        click.echo(f"its window had been over for {done.overrun_seconds / 60:.0f} min")
