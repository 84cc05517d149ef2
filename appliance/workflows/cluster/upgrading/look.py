"""What an upgrade finds, and what refuses it before the first change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import NodeUnreachable
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.model.state.observed import Observed
from appliance.model.state.upgrade import mark_of
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.moves.room import Room
from appliance.model.upgrade.moves.steps import OUT
from appliance.model.upgrade.observed import node_versions
from appliance.model.upgrade.plan import Situation, UpgradePlan
from appliance.model.upgrade.proof import versions_of
from appliance.model.upgrade.window import Clock
from appliance.workflows.cluster.foresight import by_then, foresee, out_of_service
from appliance.workflows.cluster.upgrading.loads import NO_LOADS, Loads
from appliance.workflows.session.patience import api_silence, observe_until
from appliance.workflows.session.survey import look_patiently, require_evidence

if TYPE_CHECKING:
    from appliance.model.node.drain import Forecast
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.desired import Desired
    from appliance.model.state.upgrade import UpgradeMark
    from appliance.model.upgrade.gates import Gate
    from appliance.workflows.cluster.upgrading.request import UpgradeRequest
    from appliance.workflows.session.session import Session

POLL_SECONDS: Final = 10.0


@dataclass(frozen=True)
class UpgradeResult:
    """How it ended.

    Attributes:
        plan: what was planned.
        forecasts: node -> what its eviction will do.
        clock: what is known of durations.
        mark: of the upgrade that was under way before.
        gates: what was judged before the first change.
        loads: what is brought to the nodes, and the space that it takes.
        control_plane: names of its nodes.
        done: it was carried out, or to its pause.
        ended: every node has the release, but for those that were left out.
    """

    plan: UpgradePlan
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    clock: Clock = field(default_factory=lambda: Clock((), {}))
    mark: UpgradeMark | None = None
    gates: tuple[Gate, ...] = ()
    loads: Loads = NO_LOADS
    control_plane: tuple[str, ...] = ()
    done: bool = False
    ended: bool = False


@dataclass(frozen=True)
class Etcd:
    """What orders control-plane nodes.

    Attributes:
        leader: the node whose etcd leads; empty: not known.
        down: nodes whose etcd is not healthy, or does not answer.
    """

    leader: str = ""
    down: frozenset[str] = frozenset()


NO_ETCD: Final = Etcd()


@dataclass(frozen=True)
class Seen:
    """One look, and what follows from it.

    Attributes:
        mark: of an upgrade that is under way, or of one with a debt.
        room: by which the batches of the plan are bounded; None: by the option alone.
    """

    observed: Observed
    mark: UpgradeMark | None
    plan: UpgradePlan
    room: Room | None = None


def without_left_out(request: UpgradeRequest) -> Desired:
    """The desired state without the nodes that are left out: nothing looks at them.

    Nodes without which there is no site stay; the plan refuses them.
    """
    site = request.desired.site
    left = set(request.options.without) - {node.name for node in site.control_plane}
    left.discard(site.services_node.name)
    nodes = tuple(node for node in site.nodes if node.name not in left)
    release = request.options.to
    return replace(request.desired, site=replace(site, nodes=nodes), upgrading=release)


def observe_patiently(nodes: Sequence[Node], session: Session, what: str) -> Observed:
    """Look at nodes and the API, which may be away for a while.

    Args:
        nodes: those that are looked at.
        session: the ports of the site.
        what: is not to be had without an API, e.g. ``nothing can be upgraded``.

    Raises:
        NodeUnreachable: no API server answers, or a node told too little of itself.
    """

    def look() -> Observed:
        found = look_patiently(session.nodes, nodes)
        return Observed(found.node_facts, session.cluster.read(found.node_facts), found.faults)

    def lacks(observed: Observed) -> str:
        return api_silence(observed) or _missing_part(nodes, observed)

    observed = observe_until(look, lacks, session)
    if isinstance(observed.cluster, NoCluster):
        raise NodeUnreachable(
            f"no control-plane node has a cluster: {what}",
            hint="see what is there: appliance status; for a first install: appliance install",
        )
    if api_silence(observed):
        raise NodeUnreachable(
            f"no Kubernetes API server answers: {what}", hint="see what is wrong: appliance status"
        )
    require_evidence(observed.node_facts)
    return observed


def _missing_part(nodes: Sequence[Node], observed: Observed) -> str:
    """A part of the control plane without a pod, where an upgrade is under way; empty: none.

    A kubelet that has just started tells of the pods of its manifests after a while.
    """
    mark = mark_of(observed.cluster)
    if mark is None or mark.over:
        return ""
    found = (node_versions(node, observed) for node in nodes)
    missing = (
        f"{one.name}: {part} is absent"
        for one in found
        if one is not None and one.control_plane
        for part, text in one.parts.items()
        if not text
    )
    return next(missing, "")


def situation(
    request: UpgradeRequest,
    whole: Site,
    observed: Observed,
    mark: UpgradeMark | None,
    etcd: Etcd = NO_ETCD,
) -> Situation:
    """What the plan is made from; ``whole`` has the nodes that are left out as well."""
    services = observed.node_facts.get(whole.services_node.name)
    digest = services.at("artifacts.bundle_digest") if services else None
    served = (r for r, one in request.supplies.items() if digest and one.digest == digest)
    return Situation(
        versions_of(whole, observed),
        {fault.node: fault.reason for fault in observed.faults},
        mark,
        next(served, ""),
        whole.services_node.name,
        etcd.leader,
        etcd.down,
    )


def look_at_etcd(request: UpgradeRequest, session: Session) -> Etcd:
    """What orders several control-plane nodes; nothing of one alone, or where nobody answers."""
    masters, asked = request.desired.site.control_plane, session.upgrade_evidence
    if asked is None or len(masters) < 2:
        return NO_ETCD
    found = asked.statuses(masters)
    if isinstance(found, Silence):
        return NO_ETCD
    leader = next((one.node for one in found if one.healthy and one.member == one.leader), "")
    well = {one.node for one in found if one.healthy}
    return Etcd(leader, frozenset(node.name for node in masters if node.name not in well))


def look_at_room(request: UpgradeRequest, found: Observed, session: Session) -> Room | None:
    """What bounds a batch; None where none is asked for, or a service may be away.

    Raises:
        NodeUnreachable: no API server answers.
        ClusterError: the API refused.
    """
    members = found.cluster.nodes if isinstance(found.cluster, Cluster) else {}
    if request.options.max_unavailable < 2 or request.allow_outage or not members:
        return None
    views = session.drain.views(list(members))
    nodes = next(iter(views.values())).nodes
    back, asked = out_of_service(found), session.upgrade_evidence
    return Room(
        tuple(by_then(node, (), back) for node in nodes),
        views,
        asked.deserved_gpus() if asked else {},
    )


def forecasts_of(
    plan: UpgradePlan, found: Observed, session: Session, room: Room | None = None
) -> dict[str, Forecast]:
    """Node -> what its eviction will do, of each node that goes out of service.

    Args:
        plan: the steps.
        found: what was observed.
        session: the ports of the site.
        room: as it was just read; None: pods are read now.
    """
    batches = [step.nodes for step in plan.steps if step.kind in OUT]
    return foresee(batches, session, out_of_service(found), room.views if room else None)
