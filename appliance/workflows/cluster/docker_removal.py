"""Remove Docker from the nodes that changed to containerd, on request.

What must not be here: which nodes may lose it (:mod:`appliance.model.upgrade.moves.leftovers`), or
what proves on a node that nothing uses it (role ``kubernetes_runtime``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import StepNotVerified
from appliance.model.plan.play import Play
from appliance.model.plan.steps import DOCKER_REMOVAL
from appliance.model.plan.under_upgrade import under_way
from appliance.model.upgrade.moves.leftovers import Leftover, leftovers, removal_inventory
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import AGAIN, Recorder
from appliance.workflows.session.survey import observe, refuse

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session

WHY: Final = "Docker runs no pods any more, and its removal was asked for"


@dataclass(frozen=True)
class RemovalResult:
    """What was found, and whether it was removed."""

    found: tuple[Leftover, ...]
    done: bool = False

    @property
    def due(self) -> tuple[Leftover, ...]:
        """What may go."""
        return tuple(one for one in self.found if not one.wanted)


def remove_docker(
    desired: Desired,
    run: Run,
    session: Session,
    confirm: Callable[[RemovalResult], bool],
    *,
    dry_run: bool = False,
) -> RemovalResult:
    """Look for what an unused Docker keeps, remove it, and verify.

    Raises:
        PreflightFailed: an upgrade is under way; nothing was changed.
        Refused: not confirmed, or the nodes changed meanwhile; nothing was changed.
        PlaybookFailed: a node uses Docker still, or its data could not be removed.
        StepNotVerified: data of Docker is still there.
    """
    found = _look(desired, session)
    if dry_run or not found.due:
        return found
    require_confirmed(confirm(found))
    with session.lock:
        names = tuple(one.node for one in found.due)
        now = _look(desired, session)
        require_as_shown(
            names,
            tuple(one.node for one in now.due),
            "the nodes have changed since they were shown",
        )
        with Recorder(run, session).run_step(DOCKER_REMOVAL.name, names, (WHY,)):
            _play(desired, run, session, names)
            left = _look(desired, session).due
            if left:
                raise StepNotVerified(f"it was removed, but {left[0].sentence()}", hint=AGAIN)
    return RemovalResult(found.found, done=True)


def _look(desired: Desired, session: Session) -> RemovalResult:
    observed, _ = observe(desired.site, session.nodes, session.cluster)
    refuse(under_way(desired.site, observed.cluster))
    return RemovalResult(leftovers(desired.site, observed.node_facts))


def _play(desired: Desired, run: Run, session: Session, names: tuple[str, ...]) -> None:
    def on_task(name: str, task: str, changed: bool | None) -> None:
        session.observer.task(DOCKER_REMOVAL.name, name, task, changed=changed)

    inventory = removal_inventory(desired.site, desired.release.runtime.socket, names)
    session.playbooks.play(Play(run.id, DOCKER_REMOVAL.name, names, inventory), on_task)
