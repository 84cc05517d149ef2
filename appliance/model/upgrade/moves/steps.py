"""The steps of a path, release by release, from what runs; later ones as if the earlier were done.

What must not be here: what forbids an upgrade (:mod:`appliance.model.upgrade.plan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from appliance.model.upgrade.moves.room import Room
from appliance.model.upgrade.observed import API, NodeVersions
from appliance.model.upgrade.path import Hop

Forward = Literal["artifacts", "kubernetes_images", "runtime", "control_plane", "nodes"]
Kind = Forward | Literal["revive", "back"]
KubeadmAction = Literal["", "apply", "node"]

_BACK: Final[Mapping[Kind, str]] = {
    "artifacts": "yes: nothing uses the new bundle yet",
    "runtime": "yes, until its kubelet is on the new runtime: --back NODE; then forward only",
    "kubernetes_images": "yes: nothing runs the new images yet",
    "control_plane": "none; go forward: run the same command again, or call support",
    "nodes": "yes, while it is out of service: --back NODE puts the former kubelet back",
    "revive": "none is needed: it starts what the upgrade had stopped",
    "back": "none is needed: the upgrade goes forward by the same command without --back",
}
_TITLES: Final[Mapping[Kind, str]] = {
    "artifacts": "the bundle on the services node",
    "runtime": "out of service, other container runtime, tests, back",
    "kubernetes_images": "the images on every node",
    "nodes": "out of service, new kubelet, tests, back",
    "revive": "start the container runtime and the kubelet",
    "back": "what ran before, tests, back in service",
}
_DISTURBS: Final[Mapping[Kind, str]] = {
    "artifacts": "",
    "runtime": "its pods are evicted, and every container ends; it returns to service after "
    "its tests",
    "kubernetes_images": "",
    "control_plane": "etcd and the API server of this node restart, each within a minute",
    "nodes": "its pods are evicted; it returns to service after its tests",
    "revive": "",
    "back": "the pods of the node itself restart",
}
# Nodes go out of service in these, and come back.
OUT: Final[frozenset[Kind]] = frozenset({"runtime", "nodes"})
# From one container runtime to another; a node has them one after the other.
CHANGES: Final = frozenset({("docker", "containerd")})


@dataclass(frozen=True)
class UpgradeStep:
    """One step of the path.

    Attributes:
        kind: ``control_plane`` is kubeadm on one control-plane node; ``nodes`` takes nodes out of
            service, renews their kubelets and brings them back; ``runtime`` does the same with
            their container runtime, before any node has the release; ``revive`` starts what a
            killed run had stopped on the only control-plane node; ``back`` takes a step back.
        action: what kubeadm does on the node: ``apply`` on the first, ``node`` on all others.
        why: one sentence for each reason.
        bound: why no more nodes go out with these; empty: no more were asked for.
    """

    kind: Kind
    release: str
    nodes: tuple[str, ...]
    why: tuple[str, ...]
    action: KubeadmAction = ""
    bound: str = ""

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
class Order:
    """In which order nodes are taken.

    Attributes:
        to: the release at the end of the path; a node that is out for it comes first.
        at_once: how many workers are out at a time.
        leader: the control-plane node whose etcd leads; it comes last. Empty: not known.
        down: control-plane nodes whose etcd is down; they come first, before another one goes down.
        room: what bounds a batch beside ``at_once``; None: nothing does.
    """

    to: str
    at_once: int = 1
    leader: str = ""
    down: frozenset[str] = frozenset()
    room: Room | None = None


def steps_of_path(
    path: Sequence[Hop],
    now: Mapping[str, NodeVersions],
    hops: Mapping[str, Hop],
    order: Order,
    mirrored: str,
) -> tuple[UpgradeStep, ...]:
    """Every step of the path.

    Args:
        path: the releases, in order; not empty.
        now: node -> what runs there.
        hops: every release that this tool knows.
        order: which node comes when.
        mirrored: the release whose bundle the services node serves; empty: none, or unknown.
    """
    found: list[UpgradeStep] = []
    nodes, before = dict(now), ""
    for hop in path:
        steps = [*_hop(hop, nodes, hops, order)]
        served = before or mirrored
        if steps and served != hop.release:
            holds = "will hold" if before else "holds"
            why = f"the services node {holds} {served or 'another bundle'}"
            found.append(UpgradeStep("artifacts", hop.release, (), (why,)))
        found += steps
        nodes, before = after(nodes, hop), hop.release
    return tuple(found)


def _hop(
    hop: Hop,
    nodes: Mapping[str, NodeVersions],
    hops: Mapping[str, Hop],
    order: Order,
) -> Iterator[UpgradeStep]:
    """The steps of one release, but for its bundle."""
    runtimes = [*_runtimes(hop, nodes, hops, order)]
    changed = {name for step in runtimes for name in step.nodes}
    then = {
        name: replace(node, runtime=hop.runtime, maintenance=None) if name in changed else node
        for name, node in nodes.items()
    }
    work = [*_control_plane(hop, then, order), *_workers(hop, then, order)]
    if not (runtimes or work):
        return
    yield UpgradeStep(
        "kubernetes_images",
        hop.release,
        # One that is out had them before; its runtime may be stopped half-way.
        tuple(name for name, node in nodes.items() if not node.out_for(order.to)),
        ("kubeadm changes every kube-proxy at once, so each node has the images first",),
    )
    yield from runtimes
    yield from work


def after(nodes: Mapping[str, NodeVersions], hop: Hop) -> dict[str, NodeVersions]:
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


def _runtimes(
    hop: Hop, nodes: Mapping[str, NodeVersions], hops: Mapping[str, Hop], order: Order
) -> Iterator[UpgradeStep]:
    """The other container runtime, on workers first: a control plane needs nodes for its pods."""
    if all(hops[name].runtime == hop.runtime for name in hop.reached_from if name in hops):
        return
    due = [node for node in nodes.values() if _runtime_reasons(hop, node, nodes, order)]
    workers = [node for node in due if not node.control_plane]
    alone = (([node], "") for node in _in_order(due, order))
    for batch, bound in (*_batches(workers, order), *alone):
        why = [text for node in batch for text in _runtime_reasons(hop, node, nodes, order)]
        names = tuple(one.name for one in batch)
        yield UpgradeStep("runtime", hop.release, names, tuple(why), bound=bound)


def _runtime_reasons(
    hop: Hop, node: NodeVersions, nodes: Mapping[str, NodeVersions], order: Order
) -> list[str]:
    found = []
    if (node.runtime, hop.runtime) in CHANGES:
        found.append(f"{node.name}: its container runtime is {node.runtime}, not {hop.runtime}")
    # Before the first kubeadm of the release a node can be out for its runtime only.
    tag = str(hop.kubernetes)
    untouched = all(text != tag for one in nodes.values() for text in one.parts.values())
    if node.out_for(order.to) and untouched:
        found.append(_OUT.format(node.name))
    return found


_OUT: Final = "{}: this upgrade took it out of service and did not return it"


def _in_order(nodes: Sequence[NodeVersions], order: Order) -> list[NodeVersions]:
    """Control-plane nodes, etcd's leader last: it moves once, not with every node."""
    members = [node for node in nodes if node.control_plane]
    return sorted(
        members,
        key=lambda node: (
            node.name not in order.down,
            not node.out_for(order.to),
            node.name == order.leader,
        ),
    )


def _control_plane(
    hop: Hop, nodes: Mapping[str, NodeVersions], order: Order
) -> Iterator[UpgradeStep]:
    """Each control-plane node: kubeadm, then its kubelet, before the next is touched.

    To another minor version every API server comes before the first kubelet: a kubelet asks any of
    them, and must not be newer.
    """
    tag = str(hop.kubernetes)
    members = _in_order(list(nodes.values()), order)
    old = {node.name: _old_parts(node, tag) for node in members}
    # kubeadm apply ends with kube-proxy, whose pods then follow one by one: one shows its end.
    # A worker's kubelet can make a pod that looks like it, so only the control plane's count.
    proxies = {node.kube_proxy for node in members if node.kube_proxy is not None}
    applied = (tag in proxies or not proxies) and any(not parts for parts in old.values())
    # One that was killed half-way goes first, so that no two nodes are half-way.
    members.sort(
        key=lambda node: (
            node.name not in order.down,
            not 0 < len(old[node.name]) < len(node.parts),
        )
    )
    running = [node.parsed().get(API, hop.kubernetes) for node in members]
    apart = any(version.minors_to(hop.kubernetes) for version in running)
    for number, node in enumerate(members):
        action: KubeadmAction = "apply" if number == 0 and not applied else "node"
        why = [
            f"{node.name}: {part} is {text or 'absent'}, not {tag}" for part, text in old[node.name]
        ]
        if action == "apply" and not why:
            why = [f"{node.name}: no kube-proxy is {tag} yet"]
        if why:
            yield UpgradeStep("control_plane", hop.release, (node.name,), tuple(why), action)
        if not apart:
            yield from _node_step(hop, [node], order)
    for node in members if apart else ():
        yield from _node_step(hop, [node], order)


def _old_parts(node: NodeVersions, tag: str) -> list[tuple[str, str]]:
    return [(part, text) for part, text in node.parts.items() if text != tag]


def _workers(hop: Hop, nodes: Mapping[str, NodeVersions], order: Order) -> Iterator[UpgradeStep]:
    due = [n for n in nodes.values() if not n.control_plane and _reasons(hop, n, order)]
    for batch, bound in _batches(due, order):
        yield from (replace(step, bound=bound) for step in _node_step(hop, batch, order))


def _batches(
    workers: Sequence[NodeVersions], order: Order
) -> Iterator[tuple[Sequence[NodeVersions], str]]:
    """Workers in batches, each with what bounds it; those that are out already come first.

    No other is in a batch with them: a budget there may wait for the very node that is out.
    """
    out = [node for node in workers if node.out_for(order.to)]
    for start in range(0, len(out), order.at_once):
        yield out[start : start + order.at_once], ""
    left = [node for node in workers if node not in out]
    while left:
        batch, bound = left[: order.at_once], ""
        if order.room is not None:
            count, bound = order.room.bounded([node.name for node in batch])
            batch = batch[:count]
        yield batch, bound
        left = left[len(batch) :]


def _node_step(hop: Hop, nodes: Sequence[NodeVersions], order: Order) -> Iterator[UpgradeStep]:
    why = [sentence for node in nodes for sentence in _reasons(hop, node, order)]
    if why:
        names = tuple(node.name for node in nodes)
        action: KubeadmAction = "" if nodes[0].control_plane else "node"
        yield UpgradeStep("nodes", hop.release, names, tuple(why), action)


def _reasons(hop: Hop, node: NodeVersions, order: Order) -> list[str]:
    tag = str(hop.kubernetes)
    found = [] if node.kubelet == tag else [f"{node.name}: kubelet is {node.kubelet}, not {tag}"]
    if node.out_for(order.to):
        found.append(_OUT.format(node.name))
    return found
