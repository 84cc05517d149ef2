"""Remove Docker from the nodes that changed to containerd, on request.

What must not be here: which nodes may lose it (:mod:`appliance.model.upgrade.moves.leftovers`), or
what proves on a node that nothing uses it (role ``kubernetes_runtime``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import StepNotVerified
from appliance.model.plan.play import Play
from appliance.model.plan.steps import DOCKER_REMOVAL
from appliance.model.plan.under_upgrade import under_way
from appliance.model.upgrade.moves.leftovers import (
    Leftover,
    leftovers,
    losing_images,
    removal_inventory,
)
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


@dataclass(frozen=True)
class RemovalRequest:
    """What was asked for, by whom.

    Attributes:
        accepted: ``docker-image.NAME`` of each image that may be lost.
        dry_run: only look.
    """

    desired: Desired
    run: Run
    accepted: Collection[str] = ()
    dry_run: bool = False


def remove_docker(
    request: RemovalRequest, session: Session, confirm: Callable[[RemovalResult], bool]
) -> RemovalResult:
    """Look for what an unused Docker keeps, remove it, and verify.

    Raises:
        PreflightFailed: an upgrade is under way, or an image would be lost that nobody gave up;
            nothing was changed.
        Refused: not confirmed, or the nodes changed meanwhile; nothing was changed.
        PlaybookFailed: a node uses Docker still, or its data could not be removed.
        StepNotVerified: data of Docker is still there.
    """
    desired, accepted = request.desired, request.accepted
    found = _look(desired, session)
    if request.dry_run or not found.due:
        return found
    refuse(losing_images(found.due, accepted))
    require_confirmed(confirm(found))
    with session.lock:
        names = tuple(one.node for one in found.due)
        now = _look(desired, session)
        require_as_shown(
            names,
            tuple(one.node for one in now.due),
            "the nodes have changed since they were shown",
        )
        refuse(losing_images(now.due, accepted))
        with Recorder(request.run, session).run_step(DOCKER_REMOVAL.name, names, (WHY,)):
            _play(request, session, names)
            left = _look(desired, session).due
            if left:
                raise StepNotVerified(f"it was removed, but {left[0].sentence()}", hint=AGAIN)
    return RemovalResult(found.found, done=True)


def _look(desired: Desired, session: Session) -> RemovalResult:
    observed, _ = observe(desired.site, session.nodes, session.cluster)
    refuse(under_way(desired.site, observed.cluster))
    return RemovalResult(leftovers(desired.site, observed.node_facts))


def _play(request: RemovalRequest, session: Session, names: tuple[str, ...]) -> None:
    def on_task(name: str, task: str, changed: bool | None) -> None:
        session.observer.task(DOCKER_REMOVAL.name, name, task, changed=changed)

    desired, socket = request.desired, request.desired.release.runtime.socket
    inventory = removal_inventory(desired.site, socket, names, request.accepted)
    session.playbooks.play(Play(request.run.id, DOCKER_REMOVAL.name, names, inventory), on_task)
