"""The steps of an upgrade of the GPU stack, in order, from what runs now.

Nothing is remembered: a run that was killed anywhere is planned again from what it left.

The order is NVIDIA's: definitions, then the operator (gpu-operator/upgrade.rst of
NVIDIA/cloud-native-docs), then drivers; "The GPU Operator only manages the lifecycle of
containerized drivers" (gpu-driver-upgrades.rst), so a driver on the host follows node by node. Only
where the new operator does not take a driver that runs, and the old one takes the new driver, the
drivers come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from appliance.model.bundle.release.gpu_matrix import pair_fault
from appliance.model.upgrade.gpu.target import Target

if TYPE_CHECKING:
    from appliance.model.upgrade.gpu.observed import GpuNode, GpuSituation

Kind = Literal["artifacts", "registry", "operator", "node", "settle"]
Order = Literal["operator first", "drivers first", ""]

_TITLES: Final[Mapping[Kind, str]] = {
    "artifacts": "the bundle on the services node",
    "registry": "its images in the registry, and what members pull from it",
    "operator": "definitions, then the GPU Operator by helm",
    "node": "out of service, new driver and operands, GPU test, back",
    "settle": "the operator's own way to replace pods, which waited for empty nodes",
}
_BACK: Final[Mapping[Kind, str]] = {
    "artifacts": "yes: nothing uses the new bundle yet",
    "registry": "yes: nothing runs the new images yet",
    "operator": "by hand: helm rollback gpu-operator; the definitions stay new",
    "node": "no: a driver goes forward only; the node stays out of service until it is whole",
    "settle": "none is needed: no pod restarts",
}


@dataclass(frozen=True)
class GpuStep:
    """One step of the path.

    Attributes:
        nodes: at most one for ``node``.
        why: one sentence for each reason.
        disturbs: what users notice; empty: nothing.
        reboots: the node restarts.
    """

    kind: Kind
    nodes: tuple[str, ...]
    why: tuple[str, ...]
    disturbs: str = ""
    reboots: bool = False

    @property
    def title(self) -> str:
        """What it does, in words."""
        return _TITLES[self.kind]

    @property
    def back(self) -> str:
        """Whether there is a way back, and which."""
        return _BACK[self.kind]


@dataclass(frozen=True)
class GpuPlan:
    """What will run.

    Attributes:
        target: the GPU stack of the bundle.
        operator: version of the operator that runs now.
        drivers: versions of the drivers that are loaded now.
        order: which comes first; empty where only one of them changes.
        steps: in order; empty where nothing is to be done.
        proved: nodes that are of the target already.
    """

    target: Target
    operator: str = ""
    drivers: tuple[str, ...] = ()
    order: Order = ""
    steps: tuple[GpuStep, ...] = ()
    proved: tuple[str, ...] = ()


@dataclass(frozen=True)
class Open:
    """What is open of the cluster, by the post-conditions of its steps.

    Attributes:
        artifacts: why the services node lacks the bundle; empty: it holds it.
        registry: why an image of it is missing somewhere, likewise.
        operator: why the operator is not of the target; it is not judged by the values of the end.
        settle: why its values are not those of the end.
        services: the services node.
        members: the nodes that the registry's step concerns.
        leader: the control-plane node on which helm runs.
    """

    artifacts: tuple[str, ...] = ()
    registry: tuple[str, ...] = ()
    operator: tuple[str, ...] = ()
    settle: tuple[str, ...] = ()
    services: str = ""
    members: tuple[str, ...] = ()
    leader: str = ""


def plan_gpu_upgrade(target: Target, found: GpuSituation, still_open: Open) -> GpuPlan:
    """Plan the upgrade; what forbids it is judged apart (:mod:`appliance.model.upgrade.gpu.gates`).

    Args:
        target: the GPU stack of the bundle.
        found: what runs.
        still_open: what is open of the cluster.
    """
    all_restart = target.waits and bool(still_open.operator)
    due = [
        node
        for node in found.nodes.values()
        if all_restart or node.is_out or tuple(node.reasons(target))
    ]
    # One that an earlier run left out of service comes first: its GPUs are missed.
    due.sort(key=lambda node: not node.is_out)
    order = order_of(target, found)
    operator, nodes = (
        list(_operator(target, still_open)),
        [_node(target, node, all_restart=all_restart) for node in due],
    )
    middle = [*nodes, *operator] if order == "drivers first" else [*operator, *nodes]
    steps = [*_bundle(still_open), *middle, *_settled(target, still_open, middle)]
    return GpuPlan(
        target,
        found.operator,
        found.drivers,
        order if operator and nodes else "",
        tuple(steps),
        tuple(name for name, node in found.nodes.items() if node not in due),
    )


def order_of(target: Target, found: GpuSituation) -> Order:
    """Which comes first, so that no pair runs that NVIDIA's matrix lacks; empty: neither may.

    A driver in a container is named in the operator's values, so it never comes first.
    """
    running = [version for version in found.drivers if version != target.driver]
    if not any(pair_fault(target.operator, version) for version in running):
        return "operator first"
    if target.mode == "host" and not pair_fault(found.operator, target.driver):
        return "drivers first"
    return ""


def _bundle(still_open: Open) -> Iterator[GpuStep]:
    if still_open.artifacts:
        yield GpuStep("artifacts", (still_open.services,), still_open.artifacts)
    # With another bundle, what the registry lacks is seen once the services node holds it.
    if still_open.artifacts or still_open.registry:
        why = still_open.registry or (f"{still_open.services}: the bundle is new there",)
        yield GpuStep("registry", still_open.members, why)


def _operator(target: Target, still_open: Open) -> Iterator[GpuStep]:
    if still_open.operator:
        disturbs = "the operands restart, so GPUs are not offered for a minute; running pods go on"
        if target.waits:
            disturbs = "nothing yet: the operands of each node restart when it is empty"
        yield GpuStep("operator", (still_open.leader,), still_open.operator, disturbs)


def _node(target: Target, node: GpuNode, *, all_restart: bool) -> GpuStep:
    why = [f"{node.name}: {text}" for text in node.reasons(target)]
    if all_restart:
        why.append(f"{node.name}: operands of the new operator restart Docker on it")
    if node.is_out:
        why.append(f"{node.name}: this upgrade took it out of service and did not return it")
    return GpuStep("node", (node.name,), tuple(why), _disturbs(target, node), node.reboots(target))


def _disturbs(target: Target, node: GpuNode) -> str:
    base = "its pods are evicted; it returns to service after its GPU test"
    if node.reboots(target):
        return f"{base}; it restarts, because a loaded driver cannot be replaced"
    if target.mode == "container":
        return f"{base}; the driver's pod unloads the old driver and compiles the new one"
    return f"{base}; Docker restarts"


def _settled(target: Target, still_open: Open, steps: Sequence[GpuStep]) -> Iterator[GpuStep]:
    if not target.waits:
        return
    if still_open.settle or any(step.kind == "operator" for step in steps):
        why = still_open.settle or (f"{still_open.leader}: the operands waited for empty nodes",)
        yield GpuStep("settle", (still_open.leader,), why)
