"""Show a Plan: the same picture in ``plan``, ``install`` and ``status``."""

from __future__ import annotations

from typing import Any

import click

from appliance.model.plan.steps import BY_NAME
from appliance.model.state.plan import Plan, PlannedStep

FEW = 3


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain data; the keys are a contract."""
    return {
        "steps": [
            {
                "name": step.name,
                "nodes": list(step.nodes),
                "reasons": [{"node": r.node, "text": r.text} for r in step.reasons],
                "disturbs": list(step.disturbs),
            }
            for step in plan.steps
        ],
        **settled_as_json(plan),
        "refusals": [
            {
                "node": r.node,
                "check": r.check,
                "seen": r.seen,
                "expected": r.expected,
                "hint": r.hint,
            }
            for r in plan.refusals
        ],
        "warnings": [{"node": w.node, "text": w.text} for w in plan.warnings],
        "leader": plan.choice.leader,
        "left_out": [{"node": f.node, "reason": f.reason, "hint": f.hint} for f in plan.left_out],
    }


def settled_as_json(plan: Plan) -> dict[str, Any]:
    """The steps that nothing observed calls for, by what can be said of them."""
    return {
        "satisfied": list(plan.satisfied),
        "not_applicable": list(plan.not_applicable),
        "unseen": [{"step": one.step, "nodes": list(one.nodes)} for one in plan.unseen],
    }


def show_plan(plan: Plan, *, err: bool = False) -> None:
    """Print what will be done and why; what is refused; what to know."""
    for warning in plan.warnings:
        click.echo(f"warning: {warning.node}: {warning.text}", err=True)
    for fault in plan.left_out:
        click.echo(f"left out, the rest goes on without it: {fault.reason}", err=True)
        click.echo(f"   hint: {fault.hint}", err=True)
    _show_refusals(plan, err=err)
    if not plan.steps and not plan.unseen:
        click.echo("nothing to do: what each step is judged by was observed on every node", err=err)
    elif not plan.steps:
        click.echo("nothing to do on the nodes that were seen", err=err)
    for step in plan.steps:
        _show_step(step, err=err)
    if plan.steps and plan.satisfied:
        click.echo(f"already so: {', '.join(plan.satisfied)}", err=err)
    for nodes, steps in _by_nodes(plan).items():
        click.echo(f"not seen: {', '.join(steps)}: {', '.join(nodes)}", err=err)


def _show_refusals(plan: Plan, *, err: bool) -> None:
    """First of all whether it can be done."""
    if not plan.refusals:
        return
    count = len(plan.refusals)
    things = "1 thing refuses" if count == 1 else f"{count} things refuse"
    click.echo(f"cannot be done: {things} it; nothing is changed until then", err=err)
    for refusal in plan.refusals:
        click.echo(f"refused: {refusal.sentence()}", err=err)
        click.echo(f"   hint: {refusal.hint}", err=err)
    click.echo("then this is to be done:", err=err)


def _by_nodes(plan: Plan) -> dict[tuple[str, ...], list[str]]:
    """Nodes that were not seen -> the steps that nothing can be said of without them."""
    found: dict[tuple[str, ...], list[str]] = {}
    for one in plan.unseen:
        found.setdefault(one.nodes, []).append(one.step)
    return found


def show_install_plan(plan: Plan) -> None:
    """The same; where nothing is to be done, also what an edit may need that no look can see."""
    show_plan(plan)
    if not plan.steps:
        click.echo(
            "   after a change of site.yml that shows nowhere on the nodes: "
            "appliance install --only STEP --again"
        )


def _show_step(step: PlannedStep, *, err: bool) -> None:
    click.echo(f"{step.name}: {BY_NAME[step.name].summary}: {', '.join(step.nodes)}", err=err)
    by_text = by_sentence(step)
    for text, nodes in list(by_text.items())[:FEW]:
        click.echo(f"   because {', '.join(nodes)}: {text}", err=err)
    if len(by_text) > FEW:
        click.echo(f"   and {len(by_text) - FEW} more (see --output json)", err=err)
    for text in step.disturbs:
        click.echo(f"   disturbs: {text}", err=err)


def by_sentence(step: PlannedStep) -> dict[str, list[str]]:
    """Each reason once, with the nodes it is true of."""
    found: dict[str, list[str]] = {}
    for reason in step.reasons:
        found.setdefault(reason.text, []).append(reason.node)
    return found
