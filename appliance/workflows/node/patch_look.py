"""What a patch is asked for, what it finds, and what refuses it before the first change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from appliance.model.components.gpu.driver import bundled_driver, host_driver
from appliance.model.patch.node import NodePatch
from appliance.model.patch.plan import (
    CHECK,
    PatchOptions,
    PatchPlan,
    PatchStep,
    Situation,
    patched_nodes,
    plan_patch,
)
from appliance.model.patch.state import NodeState, NoState
from appliance.model.patch.window import Durations
from appliance.model.plan.judging import judge
from appliance.model.plan.steps import BY_NAME, INSTALL
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import maintenance_of
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Refusal
from appliance.model.state.upgrade import mark_of
from appliance.model.upgrade.evidence import Evidence
from appliance.model.upgrade.points.etcd import etcd
from appliance.model.upgrade.points.gate import Gate, stopping
from appliance.workflows.cluster.foresight import foresee, refusals_of, to_judge
from appliance.workflows.cluster.upgrading.look import observe_patiently

if TYPE_CHECKING:
    from appliance.model.node.drain import Forecast
    from appliance.model.site.settings import Site
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class PatchRequest:
    """What was asked for, by whom.

    Attributes:
        desired: with the bundle at hand, or the one on the services node.
        allow_outage: go on although a service will be away.
        without_backup: begin although the newest backup is not fresh.
        pausing: while it lasts, an operator may ask for a pause; it yields whether one did.
    """

    desired: Desired
    options: PatchOptions
    run: Run
    allow_outage: bool = False
    dry_run: bool = False
    without_backup: bool = False
    pausing: Callable[[], AbstractContextManager[Callable[[], bool]]] = field(
        default=lambda: nullcontext(lambda: False)
    )


@dataclass(frozen=True)
class PatchResult:
    """What was found, and how it ended.

    Attributes:
        states: node -> what it said of its packages before.
        forecasts: node -> what its eviction will do.
        durations: what is known of durations.
        kept: sentences on configuration files that stayed as they were.
        done: every step was carried out and verified.
    """

    plan: PatchPlan
    states: Mapping[str, NodeState | NoState] = field(default_factory=dict)
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations)
    kept: tuple[str, ...] = ()
    done: bool = False

    def patch_of(self, node: str) -> NodePatch:
        """What changes on a node."""
        return self.plan.nodes[node]


def look(request: PatchRequest, session: Session) -> tuple[Observed, PatchResult]:
    """Look at everything, and plan.

    Raises:
        NodeUnreachable: no API server answers, or a node told too little of itself.
    """
    site = request.desired.site
    nodes = request.desired.site.nodes
    observed = observe_patiently(nodes, session, "no node can be taken out of service")
    states = session.packages.read(patched_nodes(site))
    plan = plan_patch(
        site, request.desired.manifest, request.options, _situation(request, observed, states)
    )
    # A member on a node of ours that is out is away already: the patch is what brings it back.
    out = {name for name, patch in plan.nodes.items() if patch.out}
    forecasts = foresee([step.nodes for step in plan.steps if step.kind == "nodes"], session, out)
    refusals = [
        *_of_upgrade(site, observed),
        *plan.refusals,
        *_of_other_driver(plan, request.desired, observed),
        *(
            gate.refusal()
            for gate in stopping(etcd_gates(site, session, plan.steps))
            if gate.node not in out
        ),
        *refusals_of(to_judge(forecasts, out), CHECK, allow_outage=request.allow_outage),
    ]
    plan = replace(plan, refusals=tuple(refusals))
    return observed, PatchResult(plan, states, forecasts, Durations(session.journal.read()))


def etcd_gates(site: Site, session: Session, steps: tuple[PatchStep, ...]) -> tuple[Gate, ...]:
    """What etcd's members say, where one of their nodes is taken out; none where none is."""
    asked = session.upgrade_evidence
    if asked is None or not any(step.control_plane for step in steps):
        return ()
    return etcd(site, Evidence(etcd=asked.statuses(site.control_plane)))


def _situation(
    request: PatchRequest, observed: Observed, states: Mapping[str, NodeState | NoState]
) -> Situation:
    cluster, desired = observed.cluster, request.desired
    members = cluster.nodes if isinstance(cluster, Cluster) else {}
    step = BY_NAME["artifacts"]
    seen = frozenset(observed.node_facts)
    unmet = judge(step, desired, observed, seen).sentences() if desired.manifest else ("no bundle",)
    return Situation(
        states,
        {name: maintenance_of(node.annotations) for name, node in members.items()},
        frozenset(name for name, node in members.items() if not node.ready),
        mirrored=not unmet,
    )


def _of_upgrade(site: Site, observed: Observed) -> tuple[Refusal, ...]:
    mark = mark_of(observed.cluster)
    if mark is None or mark.over:
        return ()
    return (
        Refusal(
            site.control_plane[0].name, CHECK, mark.sentence(), "no upgrade under way",
            f"end it first: {mark.command}",
        ),
    )  # fmt: skip


def _of_other_driver(plan: PatchPlan, desired: Desired, observed: Observed) -> Iterator[Refusal]:
    """Nodes whose driver is not the bundle's: a patch builds it for a kernel, and replaces none."""
    bundled = bundled_driver(desired.manifest) if desired.manifest else None
    version = bundled.version if bundled else "none"
    for name, patch in plan.nodes.items():
        facts = observed.node_facts.get(name)
        runs = host_driver(facts) if facts else None
        if patch.driver_kernel and (bundled is None or runs not in (None, version)):
            yield Refusal(
                name,
                CHECK,
                f"driver {runs or 'none'}, and {version} in the bundle",
                f"the bundle's driver, which is built for kernel {patch.driver_kernel}",
                "appliance gpu upgrade; then run the same command again",
            )


def lacking(desired: Desired, session: Session, known: Observed) -> tuple[str, ...]:
    """A sentence for each post-condition of an install that the services node does not meet.

    Args:
        desired: the site.
        session: the ports of the site.
        known: an earlier look; the services node and the control planes are looked at again.
    """
    site = desired.site
    node = site.services_node
    look = session.nodes.look(list(dict.fromkeys([node, *site.control_plane])))
    if silent := [fault.reason for fault in look.faults if fault.node == node.name]:
        return tuple(silent)
    facts = {**known.node_facts, **look.node_facts}
    observed = Observed(facts, session.cluster.read(facts), look.faults)
    only = frozenset({node.name})
    return tuple(
        sentence
        for step in INSTALL
        if node in step.nodes(site)
        for sentence in judge(step, desired, observed, only).sentences()
    )
