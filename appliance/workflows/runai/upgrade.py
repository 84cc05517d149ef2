"""Upgrade Run:ai: save, prepare, upgrade and verify; take it back where that fails.

The plan follows from what is observed, and from the record of the upgrade on the node. So the same
command resumes a run that was killed anywhere. What must not be here: which hop is carried out and
what forbids it (:mod:`appliance.model.components.runai.upgrade`), or how a node does it (role
``runai_upgrade``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import (
    ApplianceError,
    ConfigError,
    PlaybookFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.components.runai.upgrade.plan import (
    BACKUP,
    PREPARE,
    ROLLBACK,
    UPGRADE,
    UpgradePlan,
    plan_upgrade,
)
from appliance.model.components.runai.upgrade.points import (
    backup_open_points,
    prepare_open_points,
    record_of,
    rollback_open_points,
    upgrade_open_points,
)
from appliance.model.components.runai.upgrade.record import ClaimedVolume
from appliance.model.components.runai.upgrade.variables import upgrade_variables, way_back
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import choose
from appliance.model.plan.play import Play
from appliance.model.plan.under_upgrade import under_way
from appliance.model.state.desired import Desired
from appliance.model.state.journal import Run
from appliance.model.state.nodes.node_state import in_maintenance
from appliance.model.state.observed import Observed
from appliance.model.state.plan import PlannedStep
from appliance.workflows.cluster.backups.freshness import ask_for_fresh_backup
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import observe, refuse, require_all

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

COMMAND: Final = "runai upgrade"
# What the vendor's operator makes comes late; the plays themselves wait for it as well.
PATIENCE_SECONDS: Final = 120.0
POLL_SECONDS: Final = 2.0


@dataclass(frozen=True)
class RunaiUpgradeRequest:
    """What was asked for, by whom; ``desired`` has the vendor bundle to upgrade to.

    Attributes:
        without_backup: it begins although the site's newest backup is not fresh.
    """

    desired: Desired
    run: Run
    dry_run: bool = False
    without_backup: bool = False


@dataclass(frozen=True)
class RunaiUpgradeResult:
    """How it ended.

    Attributes:
        plan: what was planned.
        done: it was carried out and verified.
        differences: how the values of the releases changed, without secrets.
        named: site.yml names the vendor bundle now.
    """

    plan: UpgradePlan
    done: bool = False
    differences: tuple[str, ...] = ()
    named: bool = False


def upgrade_runai(
    request: RunaiUpgradeRequest, session: Session, confirm: Callable[[UpgradePlan], bool]
) -> RunaiUpgradeResult:
    """Observe, refuse or upgrade, and verify each step before the next.

    Raises:
        ConfigError: the site has no Run:ai.
        NodeUnreachable: a node or the API does not answer; nothing was changed.
        PreflightFailed: the hop is not carried out, or something is not well; nothing was changed.
        Refused: the operator did not confirm, or the site changed meanwhile; nothing was changed.
        PlaybookFailed: a step failed; the releases were taken back, or the way back is told.
        StepNotVerified: a step ran, but its post-condition is not met; likewise.
    """
    desired = request.desired
    if desired.site.settings.runai is None or desired.vendor_bundle is None:
        raise ConfigError(
            "the site has no section runai: in site.yml, or its vendor bundle is not readable",
            hint="see: appliance docs upgrade-runai",
        )
    plan, observed, volumes = _planned(desired, session)
    if plan.steps:
        goes_on = plan.resumes or request.dry_run or request.without_backup
        ask_for_fresh_backup(desired.site, session, "an upgrade of Run:ai", only_said=goes_on)
    if request.dry_run or not plan.steps:
        # A run that was killed at its very end has left the old name there. No lock is taken: no
        # node is changed, and the name is of a file that was just seen unpacked and installed. It
        # would be an old name only if another upgrade, which takes minutes and is seen by its
        # record from its first step on, began and ended between this look and this line. Even then
        # only this machine's site.yml is behind, as after any upgrade from another machine: the
        # preflight refuses an install of another version than the one that runs.
        named = not request.dry_run and _is_prepared(plan, desired, observed)
        named = named and _name_bundle(request, session)
        return RunaiUpgradeResult(plan, differences=_differences(desired, observed), named=named)
    require_confirmed(confirm(plan))
    with session.lock:
        # A backup by an old plan would replace the dump of before by one of the new database.
        now, observed, volumes = _planned(desired, session)
        require_as_shown(
            _outline(plan), _outline(now), "the state of Run:ai changed since it was planned"
        )
        run = _Run(request, session, now, observed, volumes)
        differences = run.carry_out()
        named = _name_bundle(request, session)
        return RunaiUpgradeResult(now, done=True, differences=differences, named=named)


def _is_prepared(plan: UpgradePlan, desired: Desired, observed: Observed) -> bool:
    """Whether the node has this very file unpacked, and no other of the same version."""
    facts, target = observed.node_facts.get(plan.node), desired.vendor_bundle
    return bool(facts and target and facts.at("runai.bundle.sha256") == target.sha256)


def _name_bundle(request: RunaiUpgradeRequest, session: Session) -> bool:
    """Write the new file's path into site.yml; False where a person has to do that."""
    runai = request.desired.site.settings.runai
    try:
        session.choose_vendor_bundle(str(runai.vendor_bundle if runai else ""))
    except Refused as refused:
        session.observer.note(f"{refused.message}: {refused.hint}")
        return False
    return True


def _planned(
    desired: Desired, session: Session
) -> tuple[UpgradePlan, Observed, tuple[ClaimedVolume, ...]]:
    """Observe, and plan; refuse what is not carried out."""
    observed, look = observe(desired.site, session.nodes, session.cluster)
    require_all(look, in_maintenance(desired.site, observed))
    volumes = session.read_claimed_volumes()
    findings = session.preflight(desired, observed.node_facts, observed)
    plan = plan_upgrade(desired, observed, volumes, findings)
    refuse((*(under_way(desired.site, observed.cluster) if plan.steps else ()), *plan.refusals))
    return plan, observed, volumes


def _outline(plan: UpgradePlan) -> tuple[object, ...]:
    """What a person agreed to."""
    return (plan.current, plan.target, plan.parts, [step.name for step in plan.steps])


class _Run:
    """One run: what was seen last, and its records."""

    def __init__(
        self,
        request: RunaiUpgradeRequest,
        session: Session,
        plan: UpgradePlan,
        observed: Observed,
        volumes: tuple[ClaimedVolume, ...],
    ) -> None:
        self._request, self._session, self._plan = request, session, plan
        self._desired = request.desired
        self._observed, self._volumes = observed, volumes
        self._recorder = Recorder(request.run, session)

    def carry_out(self) -> tuple[str, ...]:
        for step in self._plan.steps:
            if step.name != UPGRADE:
                self._step(step)
                continue
            for line in _differences(self._desired, self._observed):
                self._session.observer.note(f"values: {line}")
            try:
                self._step(step)
            except (PlaybookFailed, StepNotVerified) as error:
                raise self._taken_back(error) from error
        return _differences(self._desired, self._observed)

    def _step(self, step: PlannedStep) -> None:
        why = tuple(f"{reason.node}: {reason.text}" for reason in step.reasons)
        with self._recorder.run_step(step.name, step.nodes, why):
            self._play(step.name)
            self._verify(step.name)

    def _play(self, name: str) -> None:
        desired, session = self._desired, self._session
        choice, _ = choose(desired, self._observed)
        inventory = run_inventory(desired, self._observed, choice, bundle_directory=None)
        variables = upgrade_variables(desired, self._observed, self._plan)
        inventory["all"]["vars"] |= variables

        def on_task(node: str, task: str, changed: bool | None) -> None:
            session.observer.task(name, node, task, changed=changed)

        session.playbooks.play(
            Play(self._request.run.id, name, (self._plan.node,), inventory), on_task
        )

    def _verify(self, name: str) -> None:
        """Look until nothing of the step is open, or the time is up."""
        patience = Patience(self._session.clock, PATIENCE_SECONDS)
        while open_points := tuple(self._open_points(name)):
            if patience.is_over():
                raise StepNotVerified(
                    f"step {name} ran, but {open_points[0]}",
                    hint="see what is wrong: appliance status; then run the same command again",
                    details=open_points[1:],
                )
            self._session.observer.verifying(name, open_points[0])
            self._session.clock.sleep(POLL_SECONDS)

    def _look(self) -> None:
        session = self._session
        look = session.nodes.look(self._desired.site.nodes)
        seen = {**self._observed.node_facts, **look.node_facts}
        self._observed = replace(
            self._observed, node_facts=seen, cluster=session.cluster.read(seen)
        )

    def _open_points(self, name: str) -> Iterable[str]:
        desired = self._desired
        self._look()
        if name == BACKUP:
            self._volumes = self._session.read_claimed_volumes()
            return backup_open_points(desired, self._observed, self._volumes)
        if name == PREPARE:
            return prepare_open_points(desired, self._observed)
        if name == ROLLBACK:
            return rollback_open_points(desired, self._observed)
        return upgrade_open_points(desired, self._observed)

    def _taken_back(self, error: ApplianceError) -> ApplianceError:
        """Take the releases back; the first error, with what became of that."""
        plan, node = self._plan, self._plan.node
        self._look()
        record = record_of(self._desired, self._observed)
        if record is not None and record.verified:
            return type(error)(
                f"{error.message}; but Run:ai {plan.target} is installed, its login, connection "
                "and projects were verified, so nothing was taken back",
                hint="set runai.vendor_bundle in site.yml to this vendor bundle; what is open: "
                "appliance plan",
                details=error.details,
                task=error.task,
                log_path=error.log_path,
            )
        step = PlannedStep(ROLLBACK, (node,), ())
        by_hand = way_back(plan, record)
        try:
            self._step(step)
        except ApplianceError as second:
            return type(error)(
                f"{error.message}; and Run:ai {plan.current} was not restored: {second.message}",
                hint="correct the cause, then run the same command again: it goes on with "
                f"{plan.target}; to go back instead, read first: appliance docs upgrade-runai",
                details=[*error.details, *(f"by hand, on {node}: {line}" for line in by_hand)],
                task=error.task,
                log_path=error.log_path,
            )
        return type(error)(
            f"{error.message}; the releases of Run:ai {plan.current} were restored",
            hint="correct the cause, then run the same command again",
            details=[*error.details, "dump and values: appliance docs upgrade-runai"],
            task=error.task,
            log_path=error.log_path,
        )


def _differences(desired: Desired, observed: Observed) -> tuple[str, ...]:
    record = record_of(desired, observed)
    return record.differences if record else ()
