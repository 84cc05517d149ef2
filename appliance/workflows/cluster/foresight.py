"""What the evictions of a rolling command will do, node by node in its order.

What must not be here: whether a forecast is judged now, which each command says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appliance.model.node.drain import Forecast, forecast, stopping, waiting_for_gpus
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.gpu_labels import WHOLE
from appliance.model.state.nodes.maintenance import ANNOTATION, TAINT, maintenance_of
from appliance.model.state.plan import Refusal
from appliance.model.state.upgrade import REASON

if TYPE_CHECKING:
    from appliance.model.node.drain import DrainView
    from appliance.model.state.cluster.cluster import ClusterNode
    from appliance.model.state.cluster.pods import PodOnNode
    from appliance.model.state.observed import Observed
    from appliance.workflows.session.session import Session

# Taints that Kubernetes itself keeps: of a cordon, and of a node that is not Ready.
CONDITIONS: Final = "node.kubernetes.io/"


def foresee(
    batches: Sequence[Sequence[str]],
    session: Session,
    out: Collection[str] = (),
    views: Mapping[str, DrainView] | None = None,
) -> dict[str, Forecast]:
    """Node -> what its eviction will do when its turn comes.

    The others of its batch take none of its pods. A node that an earlier run left out of service is
    back by then, where its turn comes before.

    Args:
        batches: names of nodes that are out together, in order.
        session: the ports of the site.
        out: names of nodes that an earlier run of the command took out.
        views: of these nodes and perhaps more, as just read; None: they are read.
    """
    names = [name for batch in batches for name in batch]
    if views is None:
        views = session.drain.views(names) if names else {}
    found: dict[str, Forecast] = {}
    back: set[str] = set()
    used = {
        name: sum(pod.gpus for pod in view.pods if not pod.has_ended)
        for name, view in views.items()
    }
    for batch in batches:
        for name in batch:
            view = views[name]
            nodes = [by_then(node, batch, back) for node in view.nodes]
            found.setdefault(name, forecast(name, view.pods, view.budgets, nodes))
        waiting = _waiting(batch, views, found, used)
        for name in batch:
            own = tuple(pod for pod in waiting if pod.node == name)
            found[name] = replace(found[name], waiting=own) if own else found[name]
        back |= {name for name in batch if name in out}
    return found


def _waiting(
    batch: Sequence[str],
    views: Mapping[str, DrainView],
    found: Mapping[str, Forecast],
    used: Mapping[str, int],
) -> tuple[PodOnNode, ...]:
    """The pods of a batch that find no free GPUs; none where a node's own pods are not known."""
    pods = [pod for name in batch for pod in found[name].evicted if pod.gpus]
    if not pods:
        return ()
    takers = [
        node
        for node in views[batch[0]].nodes
        if node.name not in batch and node.ready and node.schedulable and node.devices.get(WHOLE)
    ]
    if any(node.name not in used for node in takers):
        return ()
    return waiting_for_gpus(pods, {n.name: n.devices[WHOLE] - used[n.name] for n in takers})


def by_then(node: ClusterNode, batch: Sequence[str], back: Collection[str]) -> ClusterNode:
    """A node when a batch is out, and what an earlier run left out of service is back."""
    if node.name in batch:
        return replace(node, unschedulable=True)
    mark = maintenance_of(node.annotations) if node.name in back else None
    if mark is None:
        return node
    # The cordon of somebody else stays, and its taint with it.
    stays = node.unschedulable and not mark.cordoned
    ends = (*(() if stays else (CONDITIONS,)), *((TAINT,) if mark.tainted else ()))
    return replace(
        node,
        ready=True,
        unschedulable=stays,
        taints=tuple(taint for taint in node.taints if not taint.startswith(ends)),
        annotations={key: text for key, text in node.annotations.items() if key != ANNOTATION},
    )


def out_of_service(observed: Observed) -> tuple[str, ...]:
    """The nodes that an earlier run of an upgrade took out of service and did not return."""
    members = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    marks = {name: maintenance_of(node.annotations) for name, node in members.items()}
    return tuple(name for name, mark in marks.items() if mark and mark.reason.startswith(REASON))


def to_judge(forecasts: Mapping[str, Forecast], out: Collection[str]) -> dict[str, Forecast]:
    """What is judged before the first change: nothing of nodes that are out, which are empty.

    While a node is out its pods are on the move. A budget that allows nothing now is asked again
    when the turn of its node comes: it may wait for the very node that is out.
    """
    return {
        name: replace(one, concerns=tuple(c for c in one.concerns if not (out and c.passing)))
        for name, one in forecasts.items()
        if name not in out
    }


def refusals_of(
    forecasts: Mapping[str, Forecast], check: str, *, allow_outage: bool
) -> tuple[Refusal, ...]:
    """What would stop a service, and what would hold up an eviction for good.

    Args:
        forecasts: those that are judged.
        check: what the command calls its checks, e.g. ``patch``.
        allow_outage: whether a service may be away.
    """
    return tuple(
        Refusal(name, check, concern.on(name), "", concern.cure)
        for name, concern in stopping(forecasts, allow_outage=allow_outage)
    )


def agreed_of(forecasts: Mapping[str, Forecast]) -> frozenset[str]:
    """What ends for good, as it was shown: nothing else is ended by the run."""
    return frozenset(line for one in forecasts.values() for line in one.ended)
