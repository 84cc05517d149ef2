"""Show a Plan, in the same form for ``plan``, ``install`` and ``status``."""

from __future__ import annotations

from typing import Any

from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.render import refusals_as_json
from appliance.cli.screen.terminal import print_line
from appliance.model.plan.steps import BY_NAME, PREFLIGHT
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
        "can_be_done": not plan.refusals,
        "refusals": refusals_as_json(plan.refusals),
        "warnings": [{"node": w.node, "text": w.text} for w in plan.warnings],
        "leader": plan.choice.leader,
        "left_out": [{"node": f.node, "reason": f.reason, "hint": f.hint} for f in plan.left_out],
    }


def settled_as_json(plan: Plan) -> dict[str, Any]:
    """The steps that will not run, by reason: satisfied, not applicable or not checked."""
    return {
        "satisfied": list(plan.satisfied),
        "not_applicable": list(plan.not_applicable),
        "unseen": [{"step": one.step, "nodes": list(one.nodes)} for one in plan.unseen],
    }


def show_plan(plan: Plan, *, err: bool = False) -> None:
    """Print first whether the plan can be done, then its steps with their reasons."""
    for warning in plan.warnings:
        print_line(f"warning: {warning.node}: {warning.text}", err=True)
    for fault in plan.left_out:
        print_line(f"left out (the other nodes continue): {fault.reason}", err=True)
        say_hint(fault.hint, err=True)
    _show_refusals(plan, err=err)
    if not plan.refusals:
        print_line(_outlook(plan), err=err)
    for step in plan.steps:
        _show_step(step, err=err)
    if plan.steps and plan.satisfied:
        print_line(f"already done: {', '.join(plan.satisfied)}", err=err)
    for nodes, steps in _by_nodes(plan).items():
        print_line(f"not checked: {', '.join(steps)}: {', '.join(nodes)}", err=err)


def _outlook(plan: Plan) -> str:
    """Whether there is something to do, where nothing refuses it."""
    if plan.steps:
        count = len(plan.steps)
        if count == 1:
            return "can be done: 1 step, with its result and its nodes"
        return f"can be done: {count} steps, each with its result and its nodes"
    if plan.unseen:
        return "nothing to do on the nodes that answered"
    return "nothing to do: the checks of every step pass on every node"


def _show_refusals(plan: Plan, *, err: bool) -> None:
    """Print the refusals first: they decide whether anything runs."""
    if not plan.refusals:
        return
    count = len(plan.refusals)
    refusals, they = ("1 refusal", "it is") if count == 1 else (f"{count} refusals", "they are")
    print_line(f"{refusals}: nothing can be done until {they} fixed", err=err)
    for refusal in plan.refusals:
        print_line(f"refused: {refusal.sentence()}", err=err)
        say_hint(refusal.hint, err=err)
    print_line("the steps as the site is now; plan again after the fix:", err=err)


def _by_nodes(plan: Plan) -> dict[tuple[str, ...], list[str]]:
    """Nodes without an answer -> the steps that could not be checked there."""
    found: dict[tuple[str, ...], list[str]] = {}
    for one in plan.unseen:
        found.setdefault(one.nodes, []).append(one.step)
    return found


def show_install_plan(plan: Plan) -> None:
    """Print the plan; if it is empty, also how to apply an edit that no check sees."""
    show_plan(plan)
    if not plan.steps:
        say(
            "   if you changed something in site.yml that no check sees, run its step again: "
            "appliance install --only STEP --again"
        )


def _show_step(step: PlannedStep, *, err: bool) -> None:
    print_line(f"{step.name}: {BY_NAME[step.name].summary}: {', '.join(step.nodes)}", err=err)
    by_text = by_sentence(step)
    for text, nodes in list(by_text.items())[:FEW]:
        # A preflight has one reason for all of its nodes.
        where = "" if step.name == PREFLIGHT.name else f" {', '.join(nodes)}:"
        print_line(f"   because{where} {text}", err=err)
    if len(by_text) > FEW:
        print_line(f"   and {len(by_text) - FEW} more (see --output json)", err=err)
    for text in step.disturbs:
        print_line(f"   disturbs: {text}", err=err)


def by_sentence(step: PlannedStep) -> dict[str, list[str]]:
    """Each reason once, with the nodes to which it applies."""
    found: dict[str, list[str]] = {}
    for reason in step.reasons:
        found.setdefault(reason.text, []).append(reason.node)
    return found
