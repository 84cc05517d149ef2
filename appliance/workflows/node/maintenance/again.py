"""The state that an earlier maintenance run left, and what a run with further options must do.

What must not be here: doing any of it (:mod:`appliance.workflows.node.maintain`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from appliance.model.node.drain import DrainView
from appliance.model.site.settings import Node, Site
from appliance.model.state.journal import Run
from appliance.model.state.nodes.maintenance import Maintenance, Mode, archived
from appliance.workflows.node.maintenance.eviction import BUDGET_SECONDS, to_be_moved

# From the order to power off until a return is complete, the node may be another than it was.
OUT_PHASES = ("shutdown", "out of service", "return")


def stands(request: MaintainRequest, mark: Maintenance, view: DrainView, now: float) -> bool:
    """Whether all that was asked for is observed on the Node object; its power is not asked."""
    # Pods of a lost node stay Terminating until it is back or removed.
    is_lost = mark.lost and not view.ready
    return (
        not mark.is_under_way
        and is_marked(request, view)
        and (is_lost or not (request.lost or to_be_moved(view)))
        and mark.until == mark.until_after(request.window_seconds, now)
    )


def is_marked(request: MaintainRequest, view: DrainView) -> bool:
    """Whether the node has the cordon, and the taint where that is asked for."""
    return view.unschedulable and (view.tainted or request.mode == "cordon")


def is_out_and_empty(view: DrainView) -> bool:
    """Whether an earlier run emptied the node, so that it need not end pods any more."""
    mark = view.maintenance
    return mark is not None and mark.phase in OUT_PHASES and not to_be_moved(view)


def gone_on(
    request: MaintainRequest, mark: Maintenance, view: DrainView, now: float
) -> Maintenance:
    """What an earlier run wrote, as this one goes on with it.

    A taint of ours that is there stays, whatever is asked for now. What somebody took away since
    will be set by us, and is ours then. A node that is Ready is lost no more.
    """
    tainted = request.lost or request.mode == "taint" or (mark.tainted and view.tainted)
    # One that was lost, or was to be removed, has none; from now on it can be compared.
    needs = view.ready and mark.photograph is None
    return replace(
        mark,
        mode="taint" if tainted else "cordon",
        cordoned=mark.cordoned or not view.unschedulable,
        tainted=tainted and (mark.tainted or not view.tainted),
        lost=request.lost or (mark.lost and not view.ready),
        until=mark.until_after(request.window_seconds, now),
        photograph=archived(view.node, request.run.id) if needs else mark.photograph,
    )


@dataclass(frozen=True)
class MaintainRequest:
    """What was asked for.

    Attributes:
        window_seconds: after which the node is to be back, or None.
        shutdown: power the node off at the end.
        lost: the node does not answer: mark and taint it without its help.
        sworn: the operator confirms that a lost node is off: its BMC is not asked.
        allow_outage: go on although a service will be away.
        needs_backup: refuse to begin without a fresh backup, where the site asks for backups and
            the node carries data. What takes nodes out in turn asks once for all of them.
        without_backup: begin although the newest backup is not fresh.
        budget_seconds: how long a PodDisruptionBudget may hold the eviction up.
    """

    site: Site
    node: Node
    run: Run
    reason: str = ""
    window_seconds: float | None = None
    mode: Mode = "taint"
    shutdown: bool = False
    lost: bool = False
    sworn: bool = False
    allow_outage: bool = False
    dry_run: bool = False
    budget_seconds: float = BUDGET_SECONDS
    needs_backup: bool = False
    without_backup: bool = False
