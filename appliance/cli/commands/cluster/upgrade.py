"""``appliance cluster upgrade``: Kubernetes of another release, node by node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.cluster.rehearsal import rehearsing
from appliance.cli.help.complete import node_names
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
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
    from appliance.model.upgrade.plan import UpgradeStep
    from appliance.model.upgrade.window import Estimate
    from appliance.workflows.cluster.upgrade_look import UpgradeResult

MOST_AT_ONCE = 50


@click.command()
@click.option("--to", required=True, metavar="RELEASE", help="The release to go to.")
@click.option(
    "--bundle",
    type=Place(file_okay=False),
    help="The bundle of that release. Needed until the services node has a copy.",
)
@click.option(
    "--max-unavailable",
    type=click.IntRange(1, MOST_AT_ONCE),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="How many workers may be out of service at a time.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NODE",
    shell_complete=node_names,
    help="Leave out a worker that is down; status names it until it has the release. Repeatable.",
)
@click.option(
    "--pause-after",
    default="",
    metavar="NODE",
    shell_complete=node_names,
    help="End the run when this node has the release; run the command again to go on.",
)
@click.option(
    "--accept-loss",
    multiple=True,
    metavar="SETTING",
    help="Give up a setting that kubeadm would drop, by the name that is shown. Repeatable.",
)
@click.option(
    "--allow-outage", is_flag=True, help="Continue even if a service becomes unavailable."
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def upgrade(
    app: Application,
    to: str,
    bundle: Path | None,
    max_unavailable: int,
    without: tuple[str, ...],
    pause_after: str,
    accept_loss: tuple[str, ...],
    allow_outage: bool,
    site: Path,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Upgrade Kubernetes to another release, node by node.

    \b
    - the path follows from the versions that run; it is shown before the first change
    - the new release is written into site.yml; until the end, install refuses
    - the bundle goes to the services node, and every node gets the images
    - control-plane nodes one by one, then workers: each is emptied, renewed, tested, returned
    - each step is verified; a node that fails stays out of service, and the rest stops
    - the same command goes on, from any laptop; there is no way back to an older Kubernetes

    Example: appliance cluster upgrade --to RELEASE --bundle /media/bundle
    """
    from appliance.model.upgrade.plan import UpgradeOptions

    connected = app.connect(site, bundle, app.with_release(to))
    known = [node.name for node in connected.site.cluster_members]
    for option, name in (*(("--without", n) for n in without), ("--pause-after", pause_after)):
        if name and name not in known:
            raise click.UsageError(f"{option}: {name} is no member of the site: {', '.join(known)}")
    options = UpgradeOptions(to, without, pause_after, max_unavailable)
    with (
        progress(plain=output == "json") as display,
        closing(connected.drain()) as drain,
        rehearsing(connected, to, accept_loss, dry_run=dry_run) as heard,
    ):
        done = heard(
            connected.upgrade(
                options,
                display,
                drain,
                lambda found: _confirm(connected.site, heard(found), yes),
                accepted=accept_loss,
                allow_outage=allow_outage,
                dry_run=dry_run,
            )
        )
    if output == "json":
        print_json(_as_json(done))
    elif dry_run:
        _show(done, err=False)
    else:
        _tell(done, to)


def _tell(done: UpgradeResult, to: str) -> None:
    if not done.done:
        say(f"nothing to do: every node runs {to}")
        return
    nodes = dict.fromkeys(name for step in done.plan.steps for name in step.nodes)
    if not done.ended:
        print_line(f"paused after {done.plan.paused_after}: {len(done.plan.rest)} steps are left")
        say(f"to go on: appliance cluster upgrade --to {to}")
        return
    print_line(f"verified: {to} on {', '.join(nodes) or 'every node'}")
    for name in done.plan.without:
        print_line(f"left out: {name}: it does not have {to} yet")
        say_hint(f"when it answers: appliance cluster upgrade --to {to}")
    say("what else the release brings: appliance plan")


def _confirm(site: Site, found: UpgradeResult, yes: bool) -> bool:
    return confirmed(yes, about_site(site), lambda: _show(found, err=True))


def _show(found: UpgradeResult, *, err: bool) -> None:
    """Print what refuses first, then the path with its steps."""
    plan = found.plan
    for refusal in plan.refusals:
        print_line(f"refused: {refusal.sentence()}", err=err)
        say_hint(refusal.hint, err=err)
    if found.mark:
        print_line(found.mark.sentence(), err=err)
    if not plan.steps and not plan.refusals:
        left = ": only its end is written down" if found.mark else ""
        print_line(f"every node runs the release{left}", err=err)
        return
    _show_steps(found, err=err)
    for gate in found.gates:
        print_line(gate.sentence(), err=err)
        if gate.stops:
            say_hint(gate.cure, err=err)
    if plan.steps:
        print_line(f"window: {found.clock.of_plan(plan).sentence()}", err=err)


def _show_steps(found: UpgradeResult, *, err: bool) -> None:
    plan = found.plan
    for number, step in enumerate((*plan.steps, *plan.rest), 1):
        if step in plan.rest[:1]:
            print_line(f"pause: after {plan.paused_after}", err=err)
        for line in _lines(number, step, found):
            print_line(line, err=err)


def _lines(number: int, step: UpgradeStep, found: UpgradeResult) -> Iterator[str]:
    nodes = f": {', '.join(step.nodes)}" if step.nodes else ""
    yield f"{number}. {step.release}: {step.title}{nodes}"
    yield from (f"   because {text}" for text in step.why)
    if step.disturbs:
        yield f"   disturbs: {step.disturbs}"
    yield f"   takes: {found.clock.of_step(step).sentence()}"
    away = found.clock.api_away(step) if step.kind == "control_plane" else None
    if away is not None:
        yield f"   API: {away:.0f} s away at a time in a lab with one control-plane node"
    if step.kind == "nodes":
        for name in step.nodes:
            yield from (f"   {text}" for text in _evictions(found.forecasts.get(name)))
    yield f"   way back: {step.back}"


def _evictions(foreseen: Forecast | None) -> Iterator[str]:
    if foreseen is None:
        return
    pods = ", ".join(pod.where for pod in foreseen.evicted) or "no pod"
    yield f"evicts from {foreseen.node}: {pods}"
    for concern in foreseen.concerns:
        if not concern.quorum:
            yield f"{concern.severity}: {concern.sentence()}"


def _as_json(done: UpgradeResult) -> dict[str, Any]:
    plan = done.plan
    return {
        "path": [hop.release for hop in plan.hops],
        "steps": [_step(step, done) for step in plan.steps],
        "after_the_pause": [_step(step, done) for step in plan.rest],
        "refusals": [
            {"node": r.node, "check": r.check, "seen": r.seen, "expected": r.expected}
            | {"hint": r.hint}
            for r in plan.refusals
        ],
        "gates": [
            {"name": g.name, "node": g.node, "verdict": g.verdict, "found": g.found}
            | {"expected": g.expected, "hint": g.cure}
            for g in done.gates
        ],
        "without": list(plan.without),
        "window": _estimate(done.clock.of_plan(plan)),
        "under_way": done.mark.sentence() if done.mark else None,
        "done": done.done,
        "ended": done.ended,
    }


def _step(step: UpgradeStep, done: UpgradeResult) -> dict[str, Any]:
    found = (done.forecasts.get(name) for name in step.nodes if step.kind == "nodes")
    return {
        "release": step.release,
        "kind": step.kind,
        "nodes": list(step.nodes),
        "why": list(step.why),
        "disturbs": step.disturbs,
        "way_back": step.back,
        "takes": _estimate(done.clock.of_step(step)),
        "evicts": {one.node: [pod.where for pod in one.evicted] for one in found if one},
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    return {
        "median_seconds": round(found.median),
        "worst_seconds": round(found.worst),
        "source": found.source,
    }
