"""What every node is, and what is not as it should be. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.model.checks.health.timers import TimerView, findings, views
from appliance.model.node.lost import LostNode
from appliance.model.node.membership import MemberRecord, Removal, removed
from appliance.model.plan.planner import plan
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.desired import Desired
from appliance.model.state.findings import Finding
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import Plan
from appliance.workflows.session.doubts import NodeDoubt, find_doubts
from appliance.workflows.session.look_warnings import collecting
from appliance.workflows.session.losses import find_lost_nodes
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class StatusRequest:
    """What is looked at.

    Attributes:
        site: all that the inventory names.
        desired: the same, without the nodes that were removed on purpose.
        records: node -> what the control-plane nodes keep of it.
    """

    site: Site
    desired: Desired
    records: Mapping[str, MemberRecord]


@dataclass(frozen=True)
class StatusResult:
    """Everything that status shows.

    Attributes:
        plan: what an install would do about it.
        removed: node -> its removal, of each that was removed on purpose.
        losses: the lost nodes.
        doubts: what Node objects claim and the kept documents do not bear out.
        warnings: what could not be read, one sentence each.
        timers: of the control plane, each with its last run.
        timer_findings: what is wrong with them.
        now: by the clock of this machine, UTC epoch seconds.
    """

    desired: Desired
    observed: Observed
    look: Look
    plan: Plan
    removed: Mapping[str, Removal]
    losses: tuple[LostNode, ...] = ()
    doubts: tuple[NodeDoubt, ...] = ()
    warnings: tuple[str, ...] = ()
    timers: tuple[TimerView, ...] = ()
    timer_findings: tuple[Finding, ...] = ()
    now: float = 0.0


def look_and_plan(desired: Desired, session: Session) -> tuple[Observed, Look, Plan]:
    """One look at everything, nodes that do not answer included, and the plan that follows."""
    observed, look = observe(desired.site, session.nodes, session.cluster)
    findings = session.preflight(desired, observed.node_facts, observed)
    return observed, look, plan(desired, observed, findings)


def status(request: StatusRequest, session: Session) -> StatusResult:
    """Look at everything once, and ask for more only where a node may be lost or in doubt."""
    with collecting() as warnings:
        observed, look, planned = look_and_plan(request.desired, session)
        if isinstance(observed.cluster, Cluster):
            session.keep_handmade(look.node_facts.keys())
        lost = find_lost_nodes(request.site, session, observed, look, warnings)
        doubts = find_doubts(session.archive, observed, warnings)
    now = session.clock.now()
    return StatusResult(
        desired=request.desired,
        observed=observed,
        look=look,
        plan=planned,
        removed=_removals(request),
        losses=lost,
        doubts=doubts,
        warnings=tuple(warnings),
        timers=views(request.desired, observed),
        timer_findings=tuple(findings(request.desired, observed, now)),
        now=now,
    )


def _removals(request: StatusRequest) -> dict[str, Removal]:
    found = {
        name: request.records[name].removed
        for name in sorted(removed(request.site, request.records))
    }
    return {name: removal for name, removal in found.items() if removal is not None}
