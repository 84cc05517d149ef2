"""What must be observed after each step of an upgrade, before the next begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.state.cluster.cluster import CONTROL_PLANE_PODS, Cluster
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.observed import NodeVersions, node_versions, skew

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import EtcdStatus
    from appliance.model.upgrade.moves.steps import UpgradeStep
    from appliance.model.upgrade.path import Hop


def versions_of(site: Site, observed: Observed) -> dict[str, NodeVersions | None]:
    """Every member of the site -> what runs there; None: it is no member, or no API answers."""
    return {node.name: node_versions(node, observed) for node in site.cluster_members}


def open_points(site: Site, observed: Observed, hop: Hop, step: UpgradeStep) -> tuple[str, ...]:
    """Why a step is not done yet; empty when it is."""
    if not isinstance(observed.cluster, Cluster):
        return ("no API server answers",)
    found = versions_of(site, observed)
    there = {name: one for name, one in found.items() if one is not None}
    if step.kind == "control_plane":
        return tuple(_control_plane(observed, there, hop, step))
    if step.kind == "nodes":
        return tuple(_nodes(observed, there, hop, step))
    if step.kind == "runtime":
        return tuple(_runtimes(there, hop, step))
    return ()


def _control_plane(
    observed: Observed, found: Mapping[str, NodeVersions], hop: Hop, step: UpgradeStep
) -> Iterator[str]:
    tag, (name,) = str(hop.kubernetes), step.nodes
    yield from _parts(name, observed, found, tag)
    if step.action == "apply":
        for node in found.values():
            if node.kube_proxy != tag:
                yield f"{node.name}: kube-proxy is {node.kube_proxy or 'absent'}, not {tag}"
    yield from skew(found)


def _parts(
    name: str, observed: Observed, found: Mapping[str, NodeVersions], tag: str
) -> Iterator[str]:
    node = found.get(name)
    if node is None:
        yield f"{name}: no member of the cluster"
        return
    for part, text in node.parts.items():
        if text != tag:
            yield f"{name}: {part} is {text or 'absent'}, not {tag}"
    cluster, facts = observed.cluster, observed.node_facts.get(name)
    if facts is None or not facts.at("kubernetes.api_healthz.ok"):
        yield f"{name}: its API server is not healthy"
    for pod in cluster.pods_on(name) if isinstance(cluster, Cluster) else ():
        if pod.app in CONTROL_PLANE_PODS and not pod.ready:
            yield f"{name}: pod {pod.name} is not ready: {pod.why_unready}"
    if not node.ready:
        yield f"{name}: it is not Ready"


def _nodes(
    observed: Observed, found: Mapping[str, NodeVersions], hop: Hop, step: UpgradeStep
) -> Iterator[str]:
    tag = str(hop.kubernetes)
    for name in step.nodes:
        node = found.get(name)
        if node is None or node.kubelet != tag:
            yield f"{name}: its kubelet is {node.kubelet if node else 'absent'}, not {tag}"
        elif not node.ready:
            yield f"{name}: it is not Ready"
        elif node.control_plane:
            # A new kubelet may start them again.
            yield from _parts(name, observed, found, tag)
    yield from skew(found)


def _runtimes(found: Mapping[str, NodeVersions], hop: Hop, step: UpgradeStep) -> Iterator[str]:
    for name in step.nodes:
        node = found.get(name)
        if node is None or node.runtime != hop.runtime:
            runtime = node.runtime if node else "absent"
            yield f"{name}: its container runtime is {runtime}, not {hop.runtime}"
        elif not node.ready:
            yield f"{name}: it is not Ready"
    yield from skew(found)


def unfinished(site: Site, observed: Observed, hop: Hop, to: str) -> tuple[str, ...]:
    """What of a release no node may lack when it is complete; empty when nothing is lacked.

    Args:
        site: without the nodes that are left out.
        observed: a look at all of them.
        hop: the release.
        to: the release at the end of the path, for which nodes go out of service.
    """
    if not isinstance(observed.cluster, Cluster):
        return ("no API server answers",)
    tag, found = str(hop.kubernetes), versions_of(site, observed)
    return tuple(
        f"{name}: {part} is {text or 'absent'}, not {tag}"
        for name, node in found.items()
        for part, text in (node.texts() if node else [("the node", "")])
        if text != tag
    ) + tuple(
        f"{node.name}: still out of service"
        for node in found.values()
        if node is not None and node.out_for(to)
    )


def etcd_points(asked: Sequence[str], found: Sequence[EtcdStatus] | Silence) -> tuple[str, ...]:
    """Why etcd is not whole after a step on a control-plane node; empty when it is.

    In the middle of an upgrade members have two versions, which is no fault.

    Args:
        asked: every control-plane node.
        found: what their members say of themselves.
    """
    if isinstance(found, Silence):
        return (f"etcd: {found.reason}",)
    seen = {one.node: one for one in found}
    faults = [f"{name}: its etcd does not answer" for name in asked if name not in seen]
    for one in found:
        if not one.healthy:
            faults.append(f"{one.node}: its etcd is not healthy")
        elif not one.leader or one.learner:
            faults.append(f"{one.node}: its etcd has no vote or no leader yet")
    leaders = {one.leader for one in found}
    if not faults and len(leaders) > 1:
        faults.append(f"etcd: several leaders: {', '.join(sorted(leaders))}")
    return tuple(faults)


def control_plane_names(site: Site) -> tuple[str, ...]:
    """The nodes that carry the mark of an upgrade."""
    return tuple(node.name for node in site.cluster_members if CONTROL_PLANE in node.groups)
