"""Install bare servers, many at a time: look, decide, serve, follow each to its login, qualify.

A server that fails is named and holds nobody up. The same command goes on: what is done is seen by
looking, what is half done by a note and by the server's own disk. What must not be here: what may
be wiped (:mod:`appliance.model.node.imaging.wipe`), and the steps of one server
(:mod:`appliance.workflows.node.imaging.course`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from appliance.errors import NodeUnreachable, NotHealthy, StepNotVerified
from appliance.model.node.imaging.batch import name_of
from appliance.workflows.node.imaging.batch import Batch
from appliance.workflows.node.imaging.looking import images_of, look
from appliance.workflows.node.imaging.qualifying import (
    close_notes,
    not_qualified,
    qualify_installed,
)
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
    """Install the servers, qualify those that are installed, and say what came of each.

    Whether all went well is asked of the result: :func:`require_done`.

    Raises:
        ConfigError: the site's files lack something; nothing was changed.
        PreflightFailed: a server may not be wiped; nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        Interrupted: the operator asked for it.
    """
    images = images_of(request.site, request.nodes)
    found = look(request, session, images)
    if request.dry_run:
        return found
    refuse(found.refusals)
    close_notes(session, found)
    if not found.waiting:
        return qualify_installed(request, session, found)
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
    return qualify_installed(request, session, done)


def require_done(request: ImageRequest, done: ImageResult) -> None:
    """Every server is installed and qualified.

    Raises:
        StepNotVerified: some are not installed; names each, with the reason.
        NodeUnreachable: nothing was installed, because no BMC of these answers.
        NotHealthy: all are installed, and some are not qualified.
    """
    if done.failures and done.seconds:
        raise _failed(request, done)
    if done.failures:
        raise NodeUnreachable(
            f"no BMC answers of {', '.join(done.failures)}",
            details=list(done.failures.values()),
            hint="look at their network and power; then run the same command again",
        )
    if bad := not_qualified(done):
        (first, *others), names = bad.values(), " ".join(bad)
        write = "write `hardware: VENDOR/MODEL` into its host_vars; " if done.unqualified else ""
        raise NotHealthy(
            f"installed, and not qualified: {first}",
            hint=f"do what the table says; {write}then: appliance hardware qualify {names}",
            details=others,
        )


def _shown(found: ImageResult) -> dict[str, tuple[str, bool, str]]:
    """What the operator agreed to: what is done, and to which machine."""
    return {
        name: (one.kind, one.wipe, name_of(found.machines[name]))
        for name, one in found.courses.items()
    }


def _failed(request: ImageRequest, done: ImageResult) -> StepNotVerified:
    """Who is not installed, and the command that goes on with those alone."""
    names = [name for name in request.nodes if name in done.failures]
    bad, hint = not_qualified(done), "run the same command again"
    if len(names) < len(request.nodes):
        others = "installed" if bad else "done"
        hint = f"the others are {others}; {hint}, for {' '.join(names)} alone"
    if bad:
        hint += f"; for what is not qualified: appliance hardware qualify {' '.join(bad)}"
    return StepNotVerified(
        f"{len(names)} of {len(request.nodes)} servers are not installed: {', '.join(names)}",
        details=[
            *(done.failures[name] for name in names),
            *(f"not qualified: {why}" for why in bad.values()),
        ],
        hint=hint,
    )
