"""The steps of an upgrade, in order, from what runs now; and what forbids it.

Nothing is remembered: a run that was killed anywhere is planned again from what it left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from appliance.model.state.plan import Refusal
from appliance.model.state.upgrade import UpgradeMark
from appliance.model.upgrade.observed import NodeVersions, skew
from appliance.model.upgrade.path import Hop, NoPath, find_path

CHECK: Final = "upgrade"
Kind = Literal["artifacts", "kubernetes_images", "control_plane", "nodes"]
KubeadmAction = Literal["", "apply", "node"]

_BACK: Final[Mapping[Kind, str]] = {
    "artifacts": "yes: nothing uses the new bundle yet",
    "kubernetes_images": "yes: nothing runs the new images yet",
    "control_plane": "no: etcd's snapshot on the node is the way back, by hand",
    "nodes": "no: the node goes forward only; it stays out of service until it is whole",
}
_TITLES: Final[Mapping[Kind, str]] = {
    "artifacts": "the bundle on the services node",
    "kubernetes_images": "the images on every node",
    "nodes": "out of service, new kubelet, tests, back",
}
_DISTURBS: Final[Mapping[Kind, str]] = {
    "artifacts": "",
    "kubernetes_images": "",
    "control_plane": "etcd and the API server of this node restart, each within a minute",
    "nodes": "its pods are evicted; it is back after its tests",
}


@dataclass(frozen=True)
class UpgradeStep:
    """One step of the path.

    Attributes:
        kind: ``control_plane`` is kubeadm on one control-plane node; ``nodes`` takes nodes out of
            service, renews their kubelets and brings them back.
        action: what kubeadm does on the node: ``apply`` on the first, ``node`` on all others.
        why: one sentence for each reason.
    """

    kind: Kind
    release: str
    nodes: tuple[str, ...]
    why: tuple[str, ...]
    action: KubeadmAction = ""

    @property
    def title(self) -> str:
        """What it does, in words."""
        if self.kind == "control_plane":
            return f"kubeadm upgrade {self.action}, with etcd and the API server"
        return _TITLES[self.kind]

    @property
    def disturbs(self) -> str:
        """What users notice; empty: nothing."""
        return _DISTURBS[self.kind]

    @property
    def back(self) -> str:
        """Whether there is a way back, and which."""
        return _BACK[self.kind]


@dataclass(frozen=True)
class UpgradePlan:
    """What will run, and what forbids it.

    Attributes:
        hops: the releases on the way, the one asked for last.
        steps: of all hops; a run carries out those of the first hop.
        refusals: what must be fixed first.
        without: workers that are left out by name.
        paused_after: the node after which the run ends; empty: it runs to its end.
        rest: the steps after the pause.
    """

    hops: tuple[Hop, ...] = ()
    steps: tuple[UpgradeStep, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    without: tuple[str, ...] = ()
    paused_after: str = ""
    rest: tuple[UpgradeStep, ...] = ()

    @property
    def is_paused(self) -> bool:
        """Whether steps are left after the run."""
        return bool(self.rest)

    @property
    def release(self) -> str:
        """The release of the first hop; empty without a path."""
        return self.hops[0].release if self.hops else ""


@dataclass(frozen=True)
class UpgradeOptions:
    """What was asked for.

    Attributes:
        to: the release.
        without: workers that are left out.
        pause_after: the node after which the run ends; empty: none.
        max_unavailable: how many workers are out at a time.
    """

    to: str
    without: tuple[str, ...] = ()
    pause_after: str = ""
    max_unavailable: int = 1


@dataclass(frozen=True)
class Situation:
    """What was found.

    Attributes:
        nodes: every member of the site -> what runs there; None: it is no member.
        away: node -> why its machine did not answer.
        mark: of an upgrade that is under way.
        mirrored: the release whose bundle the services node holds; empty: none, or unknown.
        services: the node that serves the bundle.
    """

    nodes: Mapping[str, NodeVersions | None]
    away: Mapping[str, str] = field(default_factory=dict)
    mark: UpgradeMark | None = None
    mirrored: str = ""
    services: str = ""


def plan_upgrade(options: UpgradeOptions, found: Situation, hops: Mapping[str, Hop]) -> UpgradePlan:
    """Plan the upgrade.

    Args:
        options: what was asked for.
        found: what runs, and what does not answer.
        hops: release -> what an upgrade needs of it, of every release that this tool knows.
    """
    refusals = [*_of_options(options, found), *_of_nodes(options, found)]
    asked = _asked(options, found)
    if refusals or not asked:
        return UpgradePlan(refusals=tuple(refusals), without=options.without)
    try:
        path = find_path(asked, hops, options.to)
    except NoPath as none:
        refusal = Refusal(none.node, CHECK, none.seen, none.expected, none.hint)
        return UpgradePlan(refusals=(refusal,), without=options.without)
    refusals += _of_runtimes(asked, path)
    refusals += _of_skew(options, found, asked, path)
    steps = [step for hop in path for step in _hop(hop, path, asked, options, found)]
    now = _until(steps, options.pause_after)
    rest = tuple(steps[len(now) :])
    return UpgradePlan(
        path,
        tuple(now),
        tuple(refusals),
        options.without,
        options.pause_after if rest else "",
        rest,
    )


_SIDE_BY_SIDE: Final = "versions that may run side by side"
_SKEW: Final = "bring that node to a version that its control plane accepts first"


def _asked(options: UpgradeOptions, found: Situation) -> dict[str, NodeVersions]:
    return {
        name: node
        for name, node in found.nodes.items()
        if node is not None and name not in options.without
    }


def _of_options(options: UpgradeOptions, found: Situation) -> Iterator[Refusal]:
    for name in options.without:
        node = found.nodes.get(name)
        if node is not None and node.control_plane:
            yield Refusal(
                name,
                CHECK,
                "--without with a control-plane node",
                "a worker: every control-plane node must have the release",
                "leave this option out, and repair the node first",
            )
        elif name == found.services:
            yield Refusal(
                name,
                CHECK,
                "--without with the services node",
                "a worker that serves no other node: every node gets the release from this one",
                "leave this option out, and repair the node first",
            )
    mark = found.mark
    if mark is not None and not mark.over and mark.release != options.to:
        yield Refusal(
            next(iter(found.nodes), "the cluster"),
            CHECK,
            mark.sentence(),
            f"no other upgrade before the one to {options.to}",
            f"end it first: {mark.command}" if mark.is_readable else mark.command,
        )


def _of_nodes(options: UpgradeOptions, found: Situation) -> Iterator[Refusal]:
    for name, node in found.nodes.items():
        if name in options.without:
            continue
        is_worker = node is None or not node.control_plane
        leave = f", or --without {name}" if is_worker else ""
        if name in found.away:
            yield Refusal(
                name,
                CHECK,
                found.away[name].removeprefix(f"{name}: "),
                "an answer",
                f"bring it up: ping it{leave or f'; if it is lost: appliance node remove {name}'}",
            )
        elif node is None:
            yield Refusal(
                name, CHECK, "no member of the cluster", "a member", f"appliance install{leave}"
            )
        elif node.maintenance is not None and not (found.mark and node.out_for(options.to)):
            yield Refusal(
                name,
                CHECK,
                node.maintenance.sentence(),
                "a node in service",
                f"appliance node return {name}{leave}",
            )
        elif not node.ready and node.maintenance is None and not _begun(node, options, found):
            yield Refusal(
                name, CHECK, "not Ready", "a Ready node", f"see why: appliance status{leave}"
            )


def _begun(node: NodeVersions, options: UpgradeOptions, found: Situation) -> bool:
    """Whether an upgrade was at work here: then the same command repairs a node not Ready."""
    mark = found.mark
    return mark is not None and not mark.over and mark.release == options.to and node.control_plane


def _of_runtimes(nodes: Mapping[str, NodeVersions], path: Sequence[Hop]) -> Iterator[Refusal]:
    for node in nodes.values():
        hop = next((hop for hop in path if node.runtime not in ("", hop.runtime)), None)
        if hop is not None:
            yield Refusal(
                node.name,
                "runtime",
                f"the container runtime {node.runtime}",
                f"{hop.runtime}, as {hop.release} has it",
                "the change of the container runtime is not built yet: upgrade to a release "
                f"with {node.runtime}",
            )


def _of_skew(
    options: UpgradeOptions,
    found: Situation,
    asked: Mapping[str, NodeVersions],
    path: Sequence[Hop],
) -> list[Refusal]:
    """Refuse what may not run side by side now, or would not with the nodes that are left out."""
    left = {n: v for n in options.without if (v := found.nodes.get(n)) is not None}
    faults = [*skew(asked), *(f for hop in path for f in skew({**_after(asked, hop), **left}))]
    return [
        Refusal(fault.partition(":")[0], CHECK, _seen(fault), _SIDE_BY_SIDE, _SKEW)
        for fault in dict.fromkeys(faults)
    ]


def _seen(fault: str) -> str:
    """A fault without the name of its node."""
    return fault.partition(": ")[2] or fault


def _hop(
    hop: Hop,
    path: Sequence[Hop],
    now: Mapping[str, NodeVersions],
    options: UpgradeOptions,
    found: Situation,
) -> Iterator[UpgradeStep]:
    """The steps of one release; later hops are planned as if the ones before were done."""
    is_first = hop is path[0]
    nodes = now if is_first else _after(now, path[path.index(hop) - 1])
    work = [*_control_plane(hop, nodes), *_workers(hop, nodes, options.max_unavailable)]
    if not work:
        return
    if not is_first or found.mirrored != hop.release:
        why = f"the services node holds {found.mirrored or 'another bundle'}"
        before = why if is_first else f"the services node will hold {_before(path, hop).release}"
        yield UpgradeStep("artifacts", hop.release, (), (before,))
    yield UpgradeStep(
        "kubernetes_images",
        hop.release,
        tuple(nodes),
        ("kubeadm changes every kube-proxy at once, so each node has the images first",),
    )
    yield from work


def _before(path: Sequence[Hop], hop: Hop) -> Hop:
    return path[path.index(hop) - 1]


def _after(nodes: Mapping[str, NodeVersions], hop: Hop) -> dict[str, NodeVersions]:
    """What will run after a hop."""
    tag = str(hop.kubernetes)
    return {
        name: NodeVersions(
            name,
            node.control_plane,
            tag,
            dict.fromkeys(node.parts, tag),
            tag,
            hop.runtime,
        )
        for name, node in nodes.items()
    }


def _control_plane(hop: Hop, nodes: Mapping[str, NodeVersions]) -> Iterator[UpgradeStep]:
    """Each control-plane node: kubeadm, then its kubelet, before the next is touched."""
    tag = str(hop.kubernetes)
    members = [node for node in nodes.values() if node.control_plane]
    old = {node.name: _old_parts(node, tag) for node in members}
    # kubeadm apply ends with kube-proxy, whose pods then follow one by one: one shows its end.
    # A worker's kubelet can make a pod that looks like it, so only the control plane's count.
    proxies = {node.kube_proxy for node in members if node.kube_proxy is not None}
    applied = (tag in proxies or not proxies) and any(not parts for parts in old.values())
    # One that was killed half-way goes first, so that no two nodes are half-way.
    members.sort(key=lambda node: not 0 < len(old[node.name]) < len(node.parts))
    for number, node in enumerate(members):
        action: KubeadmAction = "apply" if number == 0 and not applied else "node"
        why = [
            f"{node.name}: {part} is {text or 'absent'}, not {tag}" for part, text in old[node.name]
        ]
        if action == "apply" and not why:
            why = [f"{node.name}: no kube-proxy is {tag} yet"]
        if why:
            yield UpgradeStep("control_plane", hop.release, (node.name,), tuple(why), action)
        yield from _node_step(hop, [node])


def _old_parts(node: NodeVersions, tag: str) -> list[tuple[str, str]]:
    return [(part, text) for part, text in node.parts.items() if text != tag]


def _workers(hop: Hop, nodes: Mapping[str, NodeVersions], at_once: int) -> Iterator[UpgradeStep]:
    """Workers in batches; those that are out already come first."""
    due = [n for n in nodes.values() if not n.control_plane and _reasons(hop, n)]
    due.sort(key=lambda node: not node.out_for(hop.release))
    for start in range(0, len(due), at_once):
        yield from _node_step(hop, due[start : start + at_once])


def _node_step(hop: Hop, nodes: Sequence[NodeVersions]) -> Iterator[UpgradeStep]:
    why = [sentence for node in nodes for sentence in _reasons(hop, node)]
    if why:
        names = tuple(node.name for node in nodes)
        action: KubeadmAction = "" if nodes[0].control_plane else "node"
        yield UpgradeStep("nodes", hop.release, names, tuple(why), action)


def _reasons(hop: Hop, node: NodeVersions) -> list[str]:
    tag = str(hop.kubernetes)
    found = [] if node.kubelet == tag else [f"{node.name}: kubelet is {node.kubelet}, not {tag}"]
    if node.out_for(hop.release):
        found.append(f"{node.name}: this upgrade took it out of service and did not return it")
    return found


def _until(steps: Sequence[UpgradeStep], pause_after: str) -> list[UpgradeStep]:
    """The steps up to the last one of the node after which the run pauses."""
    at = [n for n, step in enumerate(steps) if pause_after in step.nodes and step.kind == "nodes"]
    return list(steps[: at[0] + 1]) if pause_after and at else list(steps)
