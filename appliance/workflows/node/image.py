"""Install bare servers, many at a time: look, decide, serve, and follow each to its first login.

A server that fails is named and holds nobody up. The same command goes on: what is done is seen by
looking, what is half done by a note and by the server's own disk. What must not be here: what may
be wiped (:mod:`appliance.model.node.imaging.wipe`), and the steps of one server
(:mod:`appliance.workflows.node.imaging.course`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from appliance.errors import NodeUnreachable, StepNotVerified
from appliance.model.node.imaging.batch import name_of
from appliance.workflows.node.imaging.batch import Batch
from appliance.workflows.node.imaging.looking import images_of, look
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.workflows.node.imaging.request import ImageRequest, ImageResult
    from appliance.workflows.session.session import Session

COMMAND: Final = "node image"


def node_image(
    request: ImageRequest,
    session: Session,
    confirm: Callable[[ImageResult], bool],
) -> ImageResult:
    """Install the servers, and say what came of each.

    Raises:
        ConfigError: the site's files lack something; nothing was changed.
        PreflightFailed: a server may not be wiped; nothing was changed.
        NodeUnreachable: no BMC of them answers; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        StepNotVerified: some servers are not installed; names each, with the reason.
        Interrupted: the operator asked for it.
    """
    images = images_of(request.site, request.nodes)
    found = look(request, session, images)
    if request.dry_run:
        return found
    refuse(found.refusals)
    for name, course in found.courses.items():
        if course.kind == "done":
            # What a run left of it is over, and tells nothing of its disk from now on.
            session.notes.drop(name)
    if not found.waiting:
        _require_reached(found)
        return found
    require_confirmed(confirm(found))
    with session.lock:
        session.lock.require()
        now = look(request, session, images)
        require_as_shown(
            _shown(found),
            _shown(now),
            "the servers have changed since the plan was shown",
            [refusal.sentence() for refusal in now.refusals],
        )
        done = Batch(request, session, images, now).carry_out()
    if done.failures:
        raise _failed(request, done)
    return done


def _shown(found: ImageResult) -> dict[str, tuple[str, bool, str]]:
    """What the operator agreed to: what is done, and to which machine."""
    return {
        name: (one.kind, one.wipe, name_of(found.machines[name]))
        for name, one in found.courses.items()
    }


def _require_reached(found: ImageResult) -> None:
    """Nothing is left to do but on servers whose BMC does not answer.

    Raises:
        NodeUnreachable: there are some.
    """
    if found.failures:
        raise NodeUnreachable(
            f"no BMC answers of {', '.join(found.failures)}",
            details=list(found.failures.values()),
            hint="look at their network and power; then run the same command again",
        )


def _failed(request: ImageRequest, done: ImageResult) -> StepNotVerified:
    """Who is not installed, and the command that goes on with those alone."""
    names = [name for name in request.nodes if name in done.failures]
    again = f"run the same command again, for {' '.join(names)} alone"
    return StepNotVerified(
        f"{len(names)} of {len(request.nodes)} servers are not installed: {', '.join(names)}",
        details=[done.failures[name] for name in names],
        hint=f"the others are done; {again}"
        if len(names) < len(request.nodes)
        else "run the same command again",
    )
