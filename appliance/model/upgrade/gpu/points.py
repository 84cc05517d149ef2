"""What is open of a step of the GPU stack: before it, and after it until it is proved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.components.gpu import unmet
from appliance.model.components.gpu.in_turn import digest_of_values, is_unfinished, node_by_node
from appliance.model.plan.judging import judge
from appliance.model.plan.steps import BY_NAME
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.upgrade.gpu.observed import gpu_node, gpu_situation
from appliance.model.upgrade.gpu.plan import GpuStep, Open
from appliance.model.upgrade.gpu.target import Target

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.gpu.observed import GpuSituation


def open_of(desired: Desired, observed: Observed, target: Target, leader: str) -> Open:
    """What is open of the cluster before the first step."""
    found = gpu_situation(desired, observed, target)
    site, registry = desired.site, BY_NAME["registry"]
    operator = tuple(operator_points(desired, found, target))
    return Open(
        artifacts=judge(BY_NAME["artifacts"], desired, observed).sentences(),
        registry=judge(registry, desired, observed).sentences(),
        operator=tuple(f"{leader}: {text}" for text in operator),
        settle=tuple(f"{leader}: {text}" for text in settle_points(desired, found, target)),
        services=site.services_node.name,
        members=tuple(node.name for node in registry.nodes(site)),
        leader=leader,
    )


def operator_points(desired: Desired, found: GpuSituation, target: Target) -> Iterator[str]:
    """Why the operator is not of the target; its operands may wait for their nodes."""
    release = found.release
    if release is None:
        yield "the GPU Operator is not installed"
        return
    if release.status != "deployed":
        yield f"the GPU Operator's release is {release.status}"
    if release.chart_sha256 != target.chart_sha256:
        yield f"GPU Operator is {found.operator or 'unknown'}, not from chart {target.operator}"
    elif release.values_sha256 not in _digests(desired):
        yield "the values of the GPU Operator are not those of the bundle"
    for name in found.old_operators:
        yield f"pod {name} is not of the bundle's image"


def _digests(desired: Desired) -> tuple[str, str]:
    """Of the values in the middle of an upgrade, and of those at its end."""
    return digest_of_values(node_by_node(desired)), digest_of_values(desired)


def settle_points(desired: Desired, found: GpuSituation, target: Target) -> Iterator[str]:
    """Why the operator's values are those of the middle of an upgrade still."""
    values = found.release.values_sha256 if found.release else None
    if target.waits and is_unfinished(desired, values):
        yield "the operands wait for their pods to be deleted"


def step_points(
    desired: Desired, observed: Observed, target: Target, step: GpuStep
) -> tuple[str, ...]:
    """Why a step is not done yet; empty when it is."""
    if not isinstance(observed.cluster, Cluster):
        return ("no API server answers",)
    found = gpu_situation(desired, observed, target)
    if step.kind == "node":
        node = gpu_node(desired.site.node(step.nodes[0]), desired, observed, target)
        return tuple(f"{node.name}: {text}" for text in node.reasons(target))
    # Until the new operator runs, the state is what the one of before has written.
    new = (
        *operator_points(desired, found, target),
        *(f"pod {name} is not ready" for name in found.unready),
    )
    if step.kind == "operator" and target.waits:
        return new
    if step.kind in ("operator", "settle"):
        return (*new, *end_points(desired, observed))
    return ()


def end_points(desired: Desired, observed: Observed) -> Iterator[str]:
    """What is open of the operator at the end: its release, values, version and state."""
    first = desired.site.control_plane[0]
    yield from unmet.gpu(first, desired, observed)


def node_points(desired: Desired, observed: Observed, target: Target) -> tuple[str, ...]:
    """What of the target is open on any node; without an API nobody knows."""
    if not isinstance(observed.cluster, Cluster):
        return ("no API server answers",)
    found = gpu_situation(desired, observed, target).nodes.values()
    open_points = [f"{node.name}: {text}" for node in found for text in node.reasons(target)]
    return (*open_points, *(f"{node.name}: still out of service" for node in found if node.is_out))


def unfinished(desired: Desired, observed: Observed, target: Target) -> tuple[str, ...]:
    """What of the target is open anywhere once every step ran."""
    return (*node_points(desired, observed, target), *end_points(desired, observed))
