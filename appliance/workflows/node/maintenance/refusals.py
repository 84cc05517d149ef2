"""The refusals of a maintenance, from one observation of the cluster."""

from __future__ import annotations

from appliance.errors import PreflightFailed, Refused
from appliance.model.node.drain import DrainView, Forecast
from appliance.model.state.nodes.maintenance import TAINT
from appliance.workflows.node.maintenance.again import MaintainRequest, is_out_and_empty

MOST_LETTERS = 1000


def require_writable(reason: str) -> None:
    """Refuse a reason that could not be read back from the Node object.

    Raises:
        Refused: it is too long, or not UTF-8; nothing was changed.
    """
    if len(reason) > MOST_LETTERS or any("\ud800" <= letter <= "\udfff" for letter in reason):
        raise Refused(
            f"--reason: found {len(reason)} characters or invalid UTF-8, expected UTF-8 text of "
            f"at most {MOST_LETTERS} characters",
            hint="use a shorter reason",
        )


def refuse(request: MaintainRequest, view: DrainView, foreseen: Forecast) -> None:
    """Refuse an outage, a node that cannot terminate its pods, or a taint that stops the network.

    Raises:
        PreflightFailed: one of these; nothing was changed.
    """
    name = request.node.name
    if request.lost and view.ready:
        raise PreflightFailed(
            f"{name}: found the node Ready, expected a lost node",
            hint=f"drain it in the normal way: appliance node maintain {name}",
        )
    if not (request.lost or view.ready or is_out_and_empty(view)):
        lost = view.maintenance is not None and view.maintenance.lost
        raise PreflightFailed(
            f"{name}: found the node NotReady, expected a node that can terminate its pods",
            hint="it is already marked as lost: power it off with its BMC or power button"
            if lost
            else f"if it is lost: appliance node maintain {name} --lost",
        )
    if request.mode == "taint" and foreseen.unfit and not request.lost:
        first, *others = foreseen.unfit
        raise PreflightFailed(
            f"{name}: pod {first.where} does not tolerate {TAINT}: the taint would delete it",
            hint="add the toleration to its DaemonSet, or use --mode cordon, which sets no taint",
            details=[f"pod {pod.where} does not tolerate it either" for pod in others],
        )
    outages = foreseen.by("refuses")
    if outages and not request.allow_outage and not request.lost:
        raise PreflightFailed(
            outages[0].sentence(),
            hint="to continue anyway, run the same command with --allow-outage",
            details=[outage.sentence() for outage in outages[1:]],
        )
