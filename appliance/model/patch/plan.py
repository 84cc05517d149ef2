"""The order in which nodes are patched, and what forbids the first change.

Nothing is remembered: a run that was killed anywhere is planned again from what it left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from appliance.model.patch.drivers import GpuNode
from appliance.model.patch.installing import installing_faults
from appliance.model.patch.node import NodePatch, plan_node
from appliance.model.patch.space import space_faults
from appliance.model.patch.state import REASON, NodeState, NoState
from appliance.model.site.groups import CONTROL_PLANE, GPU_WORKERS
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.nodes.maintenance import Maintenance

CHECK: Final = "patch"
Kind = Literal["artifacts", "nodes", "host"]
Reboot = Literal["needed", "always"]
_STATUS: Final = "see why: appliance status"
BACK: Final[Mapping[Kind, str]] = {
    "artifacts": "yes: no node has installed anything from the new bundle yet",
    "host": "no: the bundle has no earlier packages; the earlier kernel stays installed",
    "nodes": "no: the bundle has no earlier packages; the earlier kernel stays installed",
}


@dataclass(frozen=True)
class PatchOptions:
    """What was asked for.

    Attributes:
        nodes: only these; empty: every node.
        max_unavailable: how many workers are out at a time.
        reboot: ``needed``: only where something takes effect only after a boot.
    """

    nodes: tuple[str, ...] = ()
    max_unavailable: int = 1
    reboot: Reboot = "needed"


@dataclass(frozen=True)
class PatchStep:
    """One step: the bundle on the services node, or nodes that are out together.

    Attributes:
        kind: ``host`` is a services node that is no member of the cluster.
        why: one sentence for each reason.
        control_plane: the node carries etcd, so etcd is proved before and after.
    """

    kind: Kind
    nodes: tuple[str, ...]
    why: tuple[str, ...]
    control_plane: bool = False

    @property
    def title(self) -> str:
        """What it does, in words."""
        if self.kind == "artifacts":
            return "the bundle on the services node"
        if self.kind == "host":
            return "packages, boot where needed"
        return "out of service, packages, boot where needed, tests, back"

    @property
    def back(self) -> str:
        """Whether there is a way back, and which."""
        return BACK[self.kind]


@dataclass(frozen=True)
class Situation:
    """What was found.

    Attributes:
        states: node -> what it says of its packages.
        marks: member -> what its annotation says of maintenance; None: it is in service.
        not_ready: members that are not Ready.
        mirrored: the services node holds the bundle at hand.
    """

    states: Mapping[str, NodeState | NoState]
    marks: Mapping[str, Maintenance | None] = field(default_factory=dict)
    not_ready: frozenset[str] = frozenset()
    mirrored: bool = False


@dataclass(frozen=True)
class PatchPlan:
    """What will run, and what forbids it.

    Attributes:
        nodes: node -> what changes on it, of every node that was asked for.
        steps: in order.
        refusals: what must be fixed first.
    """

    nodes: Mapping[str, NodePatch] = field(default_factory=dict)
    steps: tuple[PatchStep, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def plan_patch(
    site: Site, manifest: BundleManifest | None, options: PatchOptions, found: Situation
) -> PatchPlan:
    """Plan a patch of a site's nodes.

    Args:
        site: as site.yml and hosts.yml have it.
        manifest: of the bundle at hand, or of the one on the services node; None: there is none.
        options: what was asked for.
        found: what the nodes say.
    """
    if manifest is None or manifest.updates is None:
        held = "no bundle" if manifest is None else "a bundle without updates"
        return PatchPlan(refusals=(_no_updates(site, held),))
    wanted = [
        node for node in patched_nodes(site) if not options.nodes or node.name in options.nodes
    ]
    refusals = [*_of_nodes(site, wanted, found)]
    nodes: dict[str, NodePatch] = {}
    for node in wanted:
        state = found.states.get(node.name)
        if isinstance(state, NodeState):
            nodes[node.name] = plan_node(
                state,
                manifest,
                gpu=gpu_of(site, node),
                out=_is_ours(found.marks.get(node.name)),
                always=options.reboot == "always",
            )
            refusals += _of_driver(node.name, nodes[node.name])
            refusals += installing_faults(state, nodes[node.name])
            refusals += space_faults(state, nodes[node.name], manifest)
    due = [node for node in wanted if node.name in nodes and nodes[node.name].is_due]
    return PatchPlan(nodes, tuple(_steps(site, due, nodes, options, found)), tuple(refusals))


def _no_updates(site: Site, held: str) -> Refusal:
    return Refusal(
        site.services_node.name,
        CHECK,
        held,
        "a bundle with updates",
        "build one: appliance bundle build --updates-since DATE --installed LIST DIR; then: "
        "appliance node patch --bundle DIR",
    )


def gpu_of(site: Site, node: Node) -> GpuNode | None:
    """What a new kernel needs on a node; None: it has no GPU."""
    if GPU_WORKERS not in node.groups:
        return None
    gpu = site.settings.gpu
    return GpuNode(gpu.driver, gpu.kernels) if gpu is not None else GpuNode("preinstalled")


def _of_driver(name: str, patch: NodePatch) -> Iterator[Refusal]:
    """A node that would boot a kernel for which nothing can build NVIDIA's driver."""
    if patch.no_driver:
        yield Refusal(
            name,
            CHECK,
            patch.no_driver,
            "NVIDIA's driver for the kernel of the next boot",
            "name the kernel in gpu.kernels of site.yml, and build the bundle with --site; with a "
            "driver of your own, build it for that kernel; or remove that kernel from the node",
        )
    for text in patch.no_boot if patch.is_due else ():
        yield Refusal(
            name,
            CHECK,
            text,
            "a kernel that the patch can prove",
            "boot it in a maintenance and test the node, or remove that kernel from the node; "
            "modules of dkms: dkms autoinstall -k KERNEL",
        )


def _is_ours(mark: Maintenance | None) -> bool:
    return mark is not None and mark.reason == REASON


def _of_nodes(site: Site, wanted: Sequence[Node], found: Situation) -> Iterator[Refusal]:
    for node in wanted:
        name, state = node.name, found.states.get(node.name)
        mark = found.marks.get(name)
        if state is None or isinstance(state, NoState):
            silent = state or NoState(name, "no answer", f"see whether it answers: ping {node.ip}")
            others = [one.name for one in wanted if one.name != name]
            leave = f"; to leave it out: appliance node patch {' '.join(others)}" if others else ""
            yield Refusal(
                name, CHECK, silent.reason.removeprefix(f"{name}: "), "an answer",
                f"{silent.hint}{leave}",
            )  # fmt: skip
        elif node.in_cluster and name not in found.marks:
            yield Refusal(name, CHECK, "no member of the cluster", "a member", "appliance install")
        elif mark is not None and not _is_ours(mark):
            yield Refusal(
                name, CHECK, mark.sentence(), "a node in service", f"appliance node return {name}"
            )
        elif name in found.not_ready and mark is None:
            yield Refusal(name, CHECK, "not Ready", "a Ready node", _STATUS)
    # While a node is away its work is with the others: another one that is away already counts.
    for node in site.control_plane:
        if node not in wanted and node.name in found.not_ready:
            yield Refusal(node.name, CHECK, "not Ready", "every control-plane node Ready", _STATUS)


def patched_nodes(site: Site) -> tuple[Node, ...]:
    """Every member of the cluster, and the services node; jumpboxes have no bundle."""
    services = site.services_node.name
    return tuple(node for node in site.nodes if node.in_cluster or node.name == services)


def _steps(
    site: Site,
    due: Sequence[Node],
    nodes: Mapping[str, NodePatch],
    options: PatchOptions,
    found: Situation,
) -> Iterator[PatchStep]:
    """The bundle, workers in batches, control planes one by one, the services node last."""
    if not due:
        return
    if not found.mirrored:
        services = site.services_node.name
        yield PatchStep("artifacts", (), (f"{services} does not serve this bundle yet",))
    last = [node for node in due if node.name == site.services_node.name]
    masters = [n for n in due if CONTROL_PLANE in n.groups and n not in last]
    workers = [n for n in due if n not in masters and n not in last]
    # One that an earlier run took out is nearest to being back. No other is in a batch with it: a
    # budget there may wait for the very node that is out.
    masters.sort(key=lambda node: not nodes[node.name].out)
    out = [node for node in workers if nodes[node.name].out]
    size = options.max_unavailable
    batches = [
        group[start : start + size]
        for group in (out, [node for node in workers if node not in out])
        for start in range(0, len(group), size)
    ]
    for batch in (*batches, *([node] for node in masters), *([node] for node in last)):
        yield PatchStep(
            "nodes" if batch[0].in_cluster else "host",
            tuple(node.name for node in batch),
            tuple(text for node in batch for text in nodes[node.name].why()),
            any(CONTROL_PLANE in node.groups for node in batch),
        )
