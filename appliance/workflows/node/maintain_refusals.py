"""What forbids a maintenance, judged from one look at the cluster."""

from __future__ import annotations

from appliance.errors import PreflightFailed, Refused
from appliance.model.node.drain import DrainView, Forecast
from appliance.model.state.maintenance import TAINT
from appliance.workflows.node.maintain_again import MaintainRequest, is_out_and_empty

MOST_LETTERS = 1000


def require_writable(reason: str) -> None:
    """What cannot be read back from the Node object would be nobody's maintenance.

    Raises:
        Refused: it is too long, or no text; nothing was changed.
    """
    if len(reason) > MOST_LETTERS or any("\ud800" <= letter <= "\udfff" for letter in reason):
        raise Refused(
            f"--reason: found {len(reason)} letters or bytes that are no UTF-8, expected a text of "
            f"at most {MOST_LETTERS} letters",
            hint="say it in fewer words",
        )


def refuse(request: MaintainRequest, view: DrainView, foreseen: Forecast) -> None:
    """Refuse an outage, a node that cannot end its pods, and a taint that would end the network.

    Raises:
        PreflightFailed: one of these; nothing was changed.
    """
    name = request.node.name
    if request.lost and view.ready:
        raise PreflightFailed(
            f"{name}: found it Ready, expected a node that the cluster has lost",
            hint=f"empty it with its help: appliance node maintain {name}",
        )
    if not (request.lost or view.ready or is_out_and_empty(view)):
        lost = view.maintenance is not None and view.maintenance.lost
        raise PreflightFailed(
            f"{name}: found it NotReady, expected a node that can end its pods",
            hint="it is marked lost already: power it off by its BMC or button"
            if lost
            else f"if it is gone: appliance node maintain {name} --lost",
        )
    if request.mode == "taint" and foreseen.unfit and not request.lost:
        first, *others = foreseen.unfit
        raise PreflightFailed(
            f"{name}: pod {first.where} does not tolerate {TAINT}, which would end it",
            hint="give its DaemonSet the toleration, or leave the taint out: --mode cordon",
            details=[f"pod {pod.where} neither" for pod in others],
        )
    outages = foreseen.by("refuses")
    if outages and not request.allow_outage and not request.lost:
        raise PreflightFailed(
            outages[0].sentence(),
            hint="to go on all the same: --allow-outage",
            details=[outage.sentence() for outage in outages[1:]],
        )
