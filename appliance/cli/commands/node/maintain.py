"""``appliance node maintain`` and ``appliance node return``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.batch_options import (
    acknowledge_option,
    allow_outage_option,
    budget_wait_option,
    reason_option,
    seconds,
    wait_option,
)
from appliance.cli.commands.install.scope import node_of
from appliance.cli.commands.node.forecast_view import device_lines, forecast_as_json
from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Words
from appliance.cli.options import (
    changed_site_option,
    dry_run_option,
    output_option,
    without_backup_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_machine, about_site, confirmed, tell
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, print_table
from appliance.model.state.nodes.maintenance import Maintenance

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.node.answering import AnsweringMachine
    from appliance.model.node.bmc.fence import Fence
    from appliance.model.node.drain import Forecast
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.hardware import Difference
    from appliance.workflows.node.maintain import MaintainResult
    from appliance.workflows.node.return_ import ReturnResult


@click.command("maintain")
@click.argument("name", metavar="NODE", shell_complete=node_names)
@reason_option
@click.option("--window", callback=seconds, metavar="TIME", help="Planned duration: 90m, 4h, 2d.")
@click.option(
    "--mode",
    type=Words(["taint", "cordon"]),
    default="taint",
    show_default=True,
    help="taint: cordon, then add the taint runai=drain:NoExecute; cordon: no taint.",
)
@click.option("--shutdown", is_flag=True, help="Shut the node down over SSH at the end.")
@click.option(
    "--lost", is_flag=True, help="The node is unreachable: taint it through the API only."
)
@click.option(
    "--i-know-it-is-dead",
    "sworn",
    is_flag=True,
    help="With --lost: you have verified that the node is off; its BMC is not asked.",
)
@allow_outage_option
@budget_wait_option
@changed_site_option
@without_backup_option
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
    sworn: bool,
    allow_outage: bool,
    budget_wait: float,
    without_backup: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Take a node out of service for planned work, or mark a lost node.

    First a forecast shows which pods move and what prevents that. Then:

    \b
    - the node's facts are saved for a comparison at its return
    - the node is cordoned; its pods are evicted one by one within their PodDisruptionBudgets
    - when the node is empty, it gets the taint runai=drain:NoExecute (--mode taint)
    - with --shutdown the node is powered off
    - if a step fails, or you press Ctrl-C, the changes are undone

    With --lost nothing can be evicted: the taint deletes the pods and ignores every budget.
    If its BMC reports power on, the power is cut first; if that fails, no pod is deleted.

    A node in service that carries data (etcd, or the NFS export) needs a fresh backup where
    site.yml has the section backup.

    Example: appliance node maintain gpu2 --reason "new riser" --window 4h --shutdown
    """
    from appliance.workflows.node.maintain import node_maintain
    from appliance.workflows.node.maintenance.again import MaintainRequest

    if lost and (shutdown or mode == "cordon"):
        raise click.UsageError("--lost takes neither --shutdown nor --mode cordon")
    if sworn and not lost:
        raise click.UsageError("--i-know-it-is-dead is for --lost")
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
        sworn=sworn,
        allow_outage=allow_outage,
        dry_run=dry_run,
        budget_seconds=budget_wait,
        needs_backup=not lost,
        without_backup=without_backup,
    )

    def confirm(
        foreseen: Forecast, last_time: str, machine: AnsweringMachine, fence: Fence | None
    ) -> bool:
        said = _forecast_lines(foreseen, last_time, lost=lost)
        said += [fence.sentence()] if fence else []
        return confirmed(yes, [*about_machine(connected.site, machine), *said], lambda: None)

    with (
        progress(plain=output == "json", title=f"appliance {run.command} {name}") as display,
        closing(connected.drain()) as drain,
    ):
        session = replace(
            connected.session(display, run, reason),
            drain=drain,
            power=connected.power(),
            bmcs=connected.bmcs(),
            driver=connected.bmc_driver,
        )
        done = node_maintain(request, session, confirm)
    _show_maintained(name, done, output, dry_run=dry_run, lost=lost)


def _forecast_lines(foreseen: Forecast, last_time: str = "", *, lost: bool = False) -> list[str]:
    pods = len(foreseen.evicted)
    lines = [f"{foreseen.node}: {pods} pod{'' if pods == 1 else 's'} will be evicted"]
    if lost:
        lines = [
            f"{foreseen.node}: --lost: its pods will be deleted, ignoring every "
            "PodDisruptionBudget; they stay Terminating until the node returns or is removed"
        ]
    lines += [f"  {concern.severity}: {concern.sentence()}" for concern in foreseen.concerns]
    lines += [
        f"  ends: {pod.where}: DaemonSet {pod.owner[1] if pod.owner else ''} does not tolerate "
        "the taint; its pod starts again when the node returns"
        for pod in foreseen.ended_by_taint
    ]
    lines += [f"  {line}" for line in device_lines(foreseen)]
    lines.append(f"  a pod may take up to {foreseen.grace_seconds} s to terminate")
    if last_time:
        lines.append(f"  {last_time}")
    return lines


def _show_maintained(
    name: str, done: MaintainResult, output: str, *, dry_run: bool, lost: bool
) -> None:
    mark = done.maintenance
    if output == "json":
        print_json(
            {
                "node": name,
                "changed": not (dry_run or done.already),
                "forecast": forecast_as_json(done.forecast),
                "maintenance": None if mark is None else mark_as_json(mark),
                "evict_seconds": done.evict_seconds,
                "powered_off": done.off or None,
                "fencing": done.fence.sentence() if done.fence else None,
            }
        )
        return
    if mark is None:
        said = [done.fence.sentence()] if done.fence else []
        click.echo("\n".join([*_forecast_lines(done.forecast, lost=lost), *said]))
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


def mark_as_json(mark: Maintenance) -> dict[str, Any]:
    """The maintenance as plain data; the keys are a contract."""
    keys = ("run", "by", "host", "since", "until", "reason", "mode", "phase", "lost")
    return {key: getattr(mark, key) for key in keys}


@click.command("return")
@click.argument("name", metavar="NODE", shell_complete=node_names)
@acknowledge_option
@wait_option("10m", "How long to wait for the node to answer.")
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
    - a node that its BMC reports off is switched on, after a question
    - its facts are compared with those saved before: memory, disks, links, GPUs,
      PCIe lanes, kernel, driver, mounts, clock; unless acknowledged, a loss is refused
    - the taint of 'node maintain' is removed; the pod network and the GPU stack start again
    - a test pod on the node tests its network and lists its GPUs
    - after that the node is uncordoned, if 'node maintain' cordoned it

    Example: appliance node return gpu2
    """
    from appliance.workflows.node.maintenance.switch_on import switch_on
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

    def agree(said: str) -> bool:
        about = [*about_site(connected.site), said]
        return confirmed(yes, about, lambda: None, "Switch it on?")

    def confirm(
        mark: Maintenance, differences: Sequence[Difference], machine: AnsweringMachine
    ) -> bool:
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

        def wake(asleep: Node) -> None:
            switch_on(asleep, session, connected.bmc_driver, agree)

        try:
            done = node_return(request, session, confirm, found.extend, wake)
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
        click.echo(f"its window was exceeded by {done.overrun_seconds / 60:.0f} min")
