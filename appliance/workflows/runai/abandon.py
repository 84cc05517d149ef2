"""Drop an upgrade of Run:ai that changed nothing yet: ``runai upgrade --abandon``.

What must not be here: when that is allowed
(:mod:`appliance.model.components.runai.upgrade.abandon`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from appliance.errors import ConfigError, StepNotVerified
from appliance.model.components.runai.upgrade.abandon import plan_abandon
from appliance.model.components.runai.upgrade.plan import ROLLBACK, UpgradePlan
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import choose
from appliance.model.plan.play import Play
from appliance.model.plan.under_upgrade import under_way
from appliance.model.state.nodes.node_state import in_maintenance
from appliance.model.state.observed import Observed
from appliance.workflows.runai.upgrade import RunaiUpgradeRequest, RunaiUpgradeResult
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import observe, refuse, require_all

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session


def abandon_upgrade(
    request: RunaiUpgradeRequest, session: Session, confirm: Callable[[UpgradePlan], bool]
) -> RunaiUpgradeResult:
    """Observe, refuse or drop the upgrade that did not end, and verify that.

    Raises:
        ConfigError: the site has no Run:ai.
        NodeUnreachable: a node or the API does not answer; nothing was changed.
        PreflightFailed: helm has changed a release; nothing was changed.
        Refused: the operator did not confirm, or the site changed meanwhile; nothing was changed.
        PlaybookFailed: the node found a change of the upgrade, or a pod is not ready.
        StepNotVerified: the upgrade is open still.
    """
    if request.desired.site.settings.runai is None:
        raise ConfigError(
            "the site has no section runai: in site.yml", hint="see: appliance docs upgrade-runai"
        )
    plan, _ = _planned(request, session)
    if request.dry_run or not plan.steps:
        return RunaiUpgradeResult(plan)
    require_confirmed(confirm(plan))
    with session.lock:
        now, observed = _planned(request, session)
        require_as_shown(plan.begun, now.begun, "the upgrade went on since it was shown")
        _carry_out(request, session, now, observed)
    return RunaiUpgradeResult(now, done=True)


def _planned(request: RunaiUpgradeRequest, session: Session) -> tuple[UpgradePlan, Observed]:
    site = request.desired.site
    observed, look = observe(site, session.nodes, session.cluster)
    require_all(look, in_maintenance(site, observed))
    plan = plan_abandon(request.desired, observed)
    refuse((*(under_way(site, observed.cluster) if plan.steps else ()), *plan.refusals))
    return plan, observed


def _carry_out(
    request: RunaiUpgradeRequest, session: Session, plan: UpgradePlan, observed: Observed
) -> None:
    desired, recorder = request.desired, Recorder(request.run, session)
    choice, _ = choose(desired, observed)
    inventory = run_inventory(desired, observed, choice, bundle_directory=None)
    inventory["all"]["vars"] |= {"runai_upgrade_only_unchanged": True}

    def on_task(node: str, task: str, changed: bool | None) -> None:
        session.observer.task(ROLLBACK, node, task, changed=changed)

    why = tuple(f"{reason.node}: {reason.text}" for reason in plan.steps[0].reasons)
    with recorder.run_step(ROLLBACK, (plan.node,), why):
        session.playbooks.play(Play(request.run.id, ROLLBACK, (plan.node,), inventory), on_task)
        left, _ = observe(desired.site, session.nodes, session.cluster)
        if plan_abandon(desired, left).steps:
            raise StepNotVerified(
                f"{plan.node}: the upgrade was dropped, but its record is still open",
                hint="run the same command again",
            )
