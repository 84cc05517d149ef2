"""Bring Run:ai's CLI to jumpboxes: program, completion, kubectl, a kubeconfig for each researcher.

A second run changes nothing, and one that was killed is taken up by the same command: the plan
follows from what is on the jumpboxes. What must not be here: what is refused (that is
:mod:`appliance.model.runai_cli`), or how a file is written (role ``runai_cli``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import Refused, StepNotProven
from appliance.model.observation import Play
from appliance.model.runai_cli import plan_cli, play_inventory
from appliance.workflows.recording import Recorder
from appliance.workflows.survey import refuse

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.journal import Run
    from appliance.model.runai_cli import CliPlan, CliWish, Jumpbox
    from appliance.workflows.ports import Clock, JournalPort, Jumpboxes, Observer, Playbooks

COMMAND = "runai cli install"
STEP = "runai_cli"


@dataclass(frozen=True)
class RunaiCliRequest:
    """What was asked for, by whom, with which tool."""

    desired: Desired
    wish: CliWish
    run: Run
    dry_run: bool = False


@dataclass(frozen=True)
class RunaiCliPorts:
    """Everything outside that is needed."""

    jumpboxes: Jumpboxes
    playbooks: Playbooks
    journal: JournalPort
    clock: Clock
    observer: Observer
    confirm: Callable[[CliPlan], bool]


@dataclass(frozen=True)
class RunaiCliInstalled:
    """How it ended: the plan, and whether it was carried out."""

    plan: CliPlan
    done: bool = False


def runai_cli(request: RunaiCliRequest, ports: RunaiCliPorts) -> RunaiCliInstalled:
    """Look, refuse or bring, and look again.

    Raises:
        NodeUnreachable: a jumpbox does not answer; nothing was changed.
        PreflightFailed: something is missing or in the way; nothing was changed.
        Refused: the operator did not confirm; nothing was changed.
        PlaybookFailed: the role failed on a jumpbox.
        StepNotProven: what was brought is not observed.
    """
    seen = ports.jumpboxes.look(request.wish)
    plan = plan_cli(request.wish, request.desired.site, seen)
    refuse(plan.refusals)
    if request.dry_run or not plan.changes:
        return RunaiCliInstalled(plan)
    if not ports.confirm(plan):
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")
    _carry_out(request, ports, plan, seen)
    return RunaiCliInstalled(plan, done=True)


def _carry_out(
    request: RunaiCliRequest, ports: RunaiCliPorts, plan: CliPlan, seen: Mapping[str, Jumpbox]
) -> None:
    recorder = Recorder(request.run, ports.journal, ports.clock)
    why = tuple(f"{change.node}: {change.text}" for change in plan.changes)
    with recorder.shown(ports.observer, STEP, plan.nodes, why):
        inventory = play_inventory(request.desired, request.wish, seen)
        play = Play(request.run.id, STEP, plan.nodes, inventory)
        ports.playbooks.play(
            play,
            lambda node, task, changed: ports.observer.task(STEP, node, task, changed=changed),
        )
        _prove(request, ports)


def _prove(request: RunaiCliRequest, ports: RunaiCliPorts) -> None:
    left = plan_cli(request.wish, request.desired.site, ports.jumpboxes.look(request.wish))
    open_points = [refusal.sentence() for refusal in left.refusals]
    open_points += [f"{change.node}: still to do: {change.text}" for change in left.changes]
    if open_points:
        raise StepNotProven(
            f"{STEP} ran, but {open_points[0]}",
            hint="somebody else may be at work there; run the same command again",
            details=open_points[1:],
        )
