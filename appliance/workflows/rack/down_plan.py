"""What ``rack down`` sees before its question, and the lines of that question.

What must not be here: any change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import ClusterError, NodeUnreachable, PreflightFailed
from appliance.model.node.drain import DrainView, forecast
from appliance.model.plan.rack.mark import ANNOTATION, RackMark, is_ours, parse_mark
from appliance.model.plan.rack.order import Stage, down_stages, drain_order, has_quorum, unhealthy
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.journal import Run
    from appliance.model.state.observed import Look
    from appliance.workflows.session.session import Session

# The tiers that are off before the control planes go.
BATTERY: Final = ("worker", "system")


@dataclass(frozen=True)
class DownRequest:
    """What was asked for.

    Attributes:
        reason: why, in the operator's words.
        allow_outage: go on although a member of etcd is not healthy.
        budget_seconds: how long a PodDisruptionBudget may hold a pod.
        without_backup: begin although the newest backup is not fresh.
    """

    site: Site
    run: Run
    reason: str = ""
    allow_outage: bool = False
    dry_run: bool = False
    budget_seconds: float = 60.0
    without_backup: bool = False


@dataclass(frozen=True)
class DownPlan:
    """What is to be done.

    Attributes:
        stages: in order.
        look: of every node; None where the API is off already.
        views: member -> its pods and marks; empty where the API is off already.
        lines: what the question shows.
        before: the record of an earlier run that this one goes on from; None without one.
    """

    stages: tuple[Stage, ...]
    look: Look | None
    views: Mapping[str, DrainView]
    lines: tuple[str, ...]
    before: RackMark | None = None


def plan_down(request: DownRequest, session: Session, before: RackMark | None) -> DownPlan:
    """Look at the rack.

    Args:
        request: what was asked for.
        session: the session.
        before: the record on this machine; another one may have brought the rack up since.

    Raises:
        NodeUnreachable: the API does not answer, and no earlier run shows why.
        PreflightFailed: etcd is not healthy.
        ClusterError: there is no cluster, or the API refused.
    """
    site, stages = request.site, down_stages(request.site)
    order = tuple(f"power off, {stage.sentence()}" for stage in stages)
    observed, look = observe(site, session.nodes, session.cluster)
    if isinstance(observed.cluster, NoCluster):
        raise ClusterError(
            "there is no cluster on these nodes",
            hint="power them off by: appliance node power off NODE...",
        )
    if not isinstance(observed.cluster, Cluster):
        if before is None or not before.is_past_workloads:
            raise NodeUnreachable(
                f"the Kubernetes API does not answer: {observed.cluster.reason}",
                hint="repair it: appliance status; to power nodes off without it: "
                "appliance node power off NODE...",
            )
        _require_workers_off(before, stages, look)
        off = "the API is off: no workload runs"
        return DownPlan(stages, None, {}, (*_begun(before), off, *order), before)
    before = _of_this_time(before, observed.cluster)
    # After its snapshot an earlier run powered members of etcd off.
    if before is None or before.phase != "control plane":
        _require_etcd(request, session)
    members = [name for name in drain_order(site) if name in observed.cluster.nodes]
    views = session.drain.views(members)
    silent = (f"{fault.node} does not answer: {fault.reason}" for fault in look.faults)
    lines = (*_begun(before), *_of_workloads(request, members, views), *silent, *order)
    return DownPlan(stages, look, views, lines, before)


def _begun(before: RackMark | None) -> tuple[str, ...]:
    return (f"an earlier run: {before.sentence()}",) if before else ()


def _of_this_time(before: RackMark | None, cluster: Cluster) -> RackMark | None:
    """The record, where a control plane carries the mark of its run: ``rack up`` takes it away."""
    marks = (parse_mark(n.annotations.get(ANNOTATION)) for n in cluster.nodes.values())
    return before if before and any(one and one.run == before.run for one in marks) else None


def _require_workers_off(before: RackMark, stages: Sequence[Stage], look: Look) -> None:
    """Before the control planes, an earlier run powered every worker off.

    Raises:
        NodeUnreachable: one is on: the record is of another time, and pods may run there.
    """
    early = [name for stage in stages if stage.tier in BATTERY for name in stage.nodes]
    on = [name for name in early if name in look.node_facts]
    if on:
        raise NodeUnreachable(
            f"the Kubernetes API does not answer, and {' and '.join(on)} "
            f"{'are' if len(on) > 1 else 'is'} on, although {before.sentence()}",
            hint="bring the rack up: appliance rack up; to power nodes off without the API, and "
            "end what runs there: appliance node power off NODE...",
        )


def _require_etcd(request: DownRequest, session: Session) -> None:
    members, errors = [], []
    for node in request.site.control_plane:
        try:
            members = list(session.etcd.members(node))
        except NodeUnreachable as error:
            errors.append(error.message)
        else:
            break
    sick = unhealthy(members)
    if not has_quorum(members):
        raise PreflightFailed(
            f"etcd has no quorum: {', '.join(sick) or '; '.join(errors)}",
            hint="repair it first: appliance status",
        )
    if sick and not request.allow_outage:
        raise PreflightFailed(
            f"etcd: {', '.join(sick)} unhealthy, expected every member healthy before it stops",
            hint="repair it: appliance status; to continue anyway: --allow-outage",
        )


def _of_workloads(
    request: DownRequest, members: list[str], views: Mapping[str, DrainView]
) -> tuple[str, ...]:
    """What ends, what is lost for good, and what others had done to nodes."""
    lines = []
    for name in members:
        view = views[name]
        foreseen = forecast(name, view.pods, view.budgets, view.nodes)
        if foreseen.evicted:
            lines.append(f"{name}: pods that end: {len(foreseen.evicted)}")
        lines += [concern.sentence() for concern in foreseen.by("loses")]
        waits = f"for {request.budget_seconds:.0f} s at most, then the pod ends with {name}"
        lines += [f"{one.sentence()}: {waits}" for one in foreseen.by("blocks")]
        if view.maintenance and not is_ours(view.maintenance):
            lines.append(f"{name} stays {view.maintenance.sentence()}")
        elif view.unschedulable and not view.maintenance:
            lines.append(f"{name} is cordoned by others, and stays so after rack up")
    return tuple(lines)
