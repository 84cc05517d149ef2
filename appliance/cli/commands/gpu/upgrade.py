"""``appliance gpu upgrade``: the GPU Operator and the drivers of the bundle, node by node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.batch_options import allow_outage_option
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    without_backup_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_site, confirmed
from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.node.drain import Forecast
    from appliance.model.site.settings import Site
    from appliance.model.upgrade.gpu.plan import GpuStep
    from appliance.workflows.gpu.look import GpuUpgradeResult

# Kind of a step -> the step of the journal that tells how long it took.
TIMED = {
    "artifacts": "artifacts",
    "registry": "registry",
    "operator": "gpu upgrade: operator",
    "node": "gpu upgrade: node",
    "settle": "gpu upgrade: settle",
}


@click.command()
@click.option(
    "--to", default="", metavar="RELEASE", help="The release to take it from. Default: the site's."
)
@click.option(
    "--bundle",
    type=Place(file_okay=False),
    help="The bundle of that release. Needed until the services node has a copy.",
)
@allow_outage_option
@changed_site_option
@without_backup_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def upgrade(
    app: Application,
    to: str,
    bundle: Path | None,
    allow_outage: bool,
    without_backup: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Upgrade the GPU Operator and NVIDIA's drivers to those of a bundle.

    \b
    - refused, before any change, where NVIDIA's matrix has no such pair or no such step
    - the bundle goes to the services node, its images to the registry
    - the definitions of the new chart are applied, then helm upgrades the operator
    - each node with GPUs: emptied, new driver, restarted where it must be, GPU test, returned
    - fabric manager and driver have the same version on machines with NVSwitches
    - each step is verified; a node that fails stays out of service, and the rest stops

    The same command goes on, from any laptop. There is no way back to an older driver.

    Example: appliance gpu upgrade --bundle /media/bundle
    """
    connected = app.connect(site, bundle, app.with_release(to)) if to else app.connect(site, bundle)
    with progress(plain=output == "json") as display, closing(connected.drain()) as drain:
        done = connected.upgrade_gpus(
            display,
            drain,
            lambda found: _confirm(connected.site, found, yes),
            to=to,
            allow_outage=allow_outage,
            without_backup=without_backup,
            dry_run=dry_run,
        )
    if output == "json":
        print_json(_as_json(done))
    elif dry_run:
        _show(done, err=False)
    else:
        _tell(done)


def _tell(done: GpuUpgradeResult) -> None:
    words = done.plan.target.words
    if not done.done:
        say(f"nothing to do: {words} runs")
        return
    nodes = [name for step in done.plan.steps if step.kind == "node" for name in step.nodes]
    print_line(f"verified: {words} on {', '.join(nodes) or 'the cluster'}")
    say("whether all is well: appliance health")


def _confirm(site: Site, found: GpuUpgradeResult, yes: bool) -> bool:
    return confirmed(yes, about_site(site), lambda: _show(found, err=True))


def _show(found: GpuUpgradeResult, *, err: bool) -> None:
    """Print the path with its steps, then go or no-go."""
    plan = found.plan
    if not plan.steps:
        print_line(f"nothing to do: {plan.target.words} runs", err=err)
        return
    drivers = ", ".join(plan.drivers) or "none is loaded"
    print_line(f"now: GPU Operator {plan.operator or 'none'}, driver {drivers}", err=err)
    print_line(f"target: {plan.target.words} ({plan.target.release})", err=err)
    if plan.order:
        print_line(f"order: {plan.order}, by NVIDIA's matrix", err=err)
    for number, step in enumerate(plan.steps, 1):
        for line in _lines(number, step, found):
            print_line(line, err=err)
    if plan.proved:
        print_line(f"already of the target, left alone: {', '.join(plan.proved)}", err=err)
    for gate in found.gates:
        print_line(gate.sentence(), err=err)
        if gate.stops:
            say_hint(gate.cure, err=err)


def _lines(number: int, step: GpuStep, found: GpuUpgradeResult) -> Iterator[str]:
    yield f"{number}. {step.title}: {', '.join(step.nodes)}"
    yield from (f"   because {text}" for text in step.why)
    if step.disturbs:
        yield f"   disturbs: {step.disturbs}"
    took = found.durations.get(TIMED[step.kind])
    yield f"   takes: {f'{took:.0f} s the last time' if took is not None else 'not measured yet'}"
    for name in step.nodes if step.kind == "node" else ():
        yield from (f"   {text}" for text in _evictions(found.forecasts.get(name)))
    yield f"   way back: {step.back}"


def _evictions(foreseen: Forecast | None) -> Iterator[str]:
    if foreseen is None:
        return
    yield f"evicts: {', '.join(pod.where for pod in foreseen.evicted) or 'no pod'}"
    for concern in foreseen.concerns:
        if not concern.quorum:
            yield f"{concern.severity}: {concern.sentence()}"


def _as_json(done: GpuUpgradeResult) -> dict[str, Any]:
    plan = done.plan
    return {
        "release": plan.target.release,
        "operator": {"now": plan.operator, "target": plan.target.operator},
        "driver": {
            "now": list(plan.drivers),
            "target": plan.target.driver,
            "mode": plan.target.mode,
            "fabric_manager": plan.target.fabric_manager,
        },
        "order": plan.order,
        "steps": [_step(step, done) for step in plan.steps],
        "already_there": list(plan.proved),
        "gates": [
            {"name": g.name, "node": g.node, "verdict": g.verdict, "found": g.found}
            | {"expected": g.expected, "hint": g.cure}
            for g in done.gates
        ],
        "done": done.done,
    }


def _step(step: GpuStep, done: GpuUpgradeResult) -> dict[str, Any]:
    found = (done.forecasts.get(name) for name in step.nodes if step.kind == "node")
    return {
        "kind": step.kind,
        "nodes": list(step.nodes),
        "why": list(step.why),
        "disturbs": step.disturbs,
        "restarts": step.reboots,
        "way_back": step.back,
        "evicts": {one.node: [pod.where for pod in one.evicted] for one in found if one},
    }
