"""Install Run:ai's CLI on jumpboxes: program, completion, kubectl, one kubeconfig per researcher.

A second run changes nothing, and one that was killed is taken up by the same command: the plan
follows from what is on the jumpboxes. What must not be here: what is refused (that is
:mod:`appliance.model.components.access.runai_cli`), or how a file is written (role ``runai_cli``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import StepNotVerified
from appliance.model.components.access.runai_cli import (
    CliOptions,
    CliPlan,
    Jumpbox,
    plan_cli,
    play_inventory,
)
from appliance.model.plan.play import Play
from appliance.model.state.desired import Desired
from appliance.model.state.journal import Run
from appliance.workflows.session.confirmation import require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

COMMAND = "runai cli install"
STEP = "runai_cli"


@dataclass(frozen=True)
class RunaiCliRequest:
    """What was asked for, by whom, with which tool."""

    desired: Desired
    options: CliOptions
    run: Run
    dry_run: bool = False


@dataclass(frozen=True)
class RunaiCliResult:
    """How it ended: the plan, and whether it was carried out."""

    plan: CliPlan
    done: bool = False


def runai_cli(
    request: RunaiCliRequest, session: Session, confirm: Callable[[CliPlan], bool]
) -> RunaiCliResult:
    """Inspect, refuse or install, and verify.

    Raises:
        NodeUnreachable: a jumpbox does not answer; nothing was changed.
        PreflightFailed: something is missing or in the way; nothing was changed.
        Refused: the operator did not confirm; nothing was changed.
        PlaybookFailed: the role failed on a jumpbox.
        StepNotVerified: a jumpbox does not have the installed files.
    """
    seen = session.jumpboxes.look(request.options)
    plan = plan_cli(request.options, request.desired.site, seen)
    refuse(plan.refusals)
    if request.dry_run or not plan.changes:
        return RunaiCliResult(plan)
    require_confirmed(confirm(plan))
    _carry_out(request, session, plan, seen)
    return RunaiCliResult(plan, done=True)


def _carry_out(
    request: RunaiCliRequest, session: Session, plan: CliPlan, seen: Mapping[str, Jumpbox]
) -> None:
    recorder = Recorder(request.run, session)
    why = tuple(f"{change.node}: {change.text}" for change in plan.changes)
    with session.lock, recorder.run_step(STEP, plan.nodes, why):
        inventory = play_inventory(request.desired, request.options, seen)
        play = Play(request.run.id, STEP, plan.nodes, inventory)
        session.playbooks.play(
            play,
            lambda node, task, changed: session.observer.task(STEP, node, task, changed=changed),
        )
        _verify(request, session)


def _verify(request: RunaiCliRequest, session: Session) -> None:
    left = plan_cli(request.options, request.desired.site, session.jumpboxes.look(request.options))
    open_points = [refusal.sentence() for refusal in left.refusals]
    open_points += [f"{change.node}: still to do: {change.text}" for change in left.changes]
    if open_points:
        raise StepNotVerified(
            f"step {STEP} ran, but {open_points[0]}",
            hint="another person may be changing the jumpbox; run the same command again",
            details=open_points[1:],
        )
