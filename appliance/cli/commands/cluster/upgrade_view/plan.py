"""What ``appliance cluster upgrade`` plans, as text and as data; the keys of the latter stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from appliance.cli.commands.cluster.upgrade_view.evictions import (
    concern_lines,
    evicted_lines,
    eviction_as_json,
    waiting_lines,
)
from appliance.cli.commands.cluster.upgrade_view.loads import load_lines, loads_as_json
from appliance.cli.commands.node.forecast_view import device_lines
from appliance.cli.screen.hints import say_hint
from appliance.cli.screen.render import refusals_as_json
from appliance.cli.screen.terminal import one_line, print_line
from appliance.model.upgrade.moves.steps import OUT

if TYPE_CHECKING:
    from appliance.model.node.drain import Forecast
    from appliance.model.upgrade.moves.steps import UpgradeStep
    from appliance.model.upgrade.window import Estimate
    from appliance.workflows.cluster.upgrading.look import UpgradeResult


def show_upgrade(found: UpgradeResult, *, err: bool) -> None:
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
    for line in load_lines(found.loads):
        print_line(line, err=err)
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
    if step.bound:
        yield f"   {one_line(step.bound)}"
    if step.disturbs:
        yield f"   disturbs: {step.disturbs}"
    yield f"   takes: {found.clock.of_step(step).sentence()}"
    away = found.clock.api_away(step, found.control_plane)
    if away is not None:
        yield f"   API: {_away(away, len(found.control_plane))}"
    if step.kind in OUT:
        for name in step.nodes:
            yield from (f"   {text}" for text in _evictions(found.forecasts.get(name)))
    yield f"   way back: {step.back}"


def _away(away: Estimate, masters: int) -> str:
    """How long the API is away, in words."""
    if away.source == "unknown":
        return "away while its pods restart; nobody has measured how long"
    others = ", until another control-plane node answers" if masters > 1 else ""
    return f"longest time away{others}: {away.sentence()}"


def _evictions(foreseen: Forecast | None) -> Iterator[str]:
    if foreseen is None:
        return
    yield from evicted_lines(foreseen)
    yield from concern_lines(foreseen)
    yield from device_lines(foreseen)
    yield from waiting_lines(foreseen)


def upgrade_as_json(done: UpgradeResult) -> dict[str, Any]:
    """The plan and how it ended, as plain data; the keys are a contract."""
    plan = done.plan
    return {
        "path": [hop.release for hop in plan.hops],
        "steps": [_step(step, done) for step in plan.steps],
        "after_the_pause": [_step(step, done) for step in plan.rest],
        "refusals": refusals_as_json(plan.refusals),
        "gates": [
            {"name": g.name, "node": g.node, "verdict": g.verdict, "found": g.found}
            | {"expected": g.expected, "hint": g.cure}
            for g in done.gates
        ],
        **loads_as_json(done.loads),
        "without": list(plan.without),
        "window": _estimate(done.clock.of_plan(plan)),
        "under_way": done.mark.sentence() if done.mark else None,
        "done": done.done,
        "ended": done.ended,
    }


def _step(step: UpgradeStep, done: UpgradeResult) -> dict[str, Any]:
    out = step.nodes if step.kind in OUT else ()
    found = [one for name in out if (one := done.forecasts.get(name))]
    away = done.clock.api_away(step, done.control_plane)
    return {
        "release": step.release,
        "kind": step.kind,
        "nodes": list(step.nodes),
        "why": list(step.why),
        "bound": step.bound,
        "disturbs": step.disturbs,
        "way_back": step.back,
        "takes": _estimate(done.clock.of_step(step)),
        "api_away": None if away is None else _estimate(away, tenths=True),
        "evicts": {one.node: [pod.where for pod in one.evicted] for one in found},
        "forecasts": {one.node: eviction_as_json(one) for one in found},
    }


def _estimate(found: Estimate, *, tenths: bool = False) -> dict[str, Any]:
    digits = 1 if tenths else None
    return {
        "median_seconds": round(found.median, digits),
        "worst_seconds": round(found.worst, digits),
        "source": found.source,
    }
