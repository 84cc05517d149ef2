"""The releases on the way from the observed versions to the one that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from appliance.model.upgrade.versions import OLDER_KUBELETS, Version, parse

if TYPE_CHECKING:
    from appliance.model.bundle.release.release import Release
    from appliance.model.upgrade.observed import NodeVersions


@dataclass(frozen=True)
class Hop:
    """What an upgrade needs to know of a release.

    Attributes:
        reached_from: the releases from which it is reached in one hop.
        socket: where kubelet and kubeadm reach its container runtime.
    """

    release: str
    kubernetes: Version
    runtime: str
    reached_from: tuple[str, ...] = ()
    socket: str = ""


class NoPath(Exception):
    """No path leads to the release: where, what was found, what was expected, and what to do."""

    def __init__(self, node: str, seen: str, expected: str, hint: str) -> None:
        super().__init__(seen)
        self.node, self.seen, self.expected, self.hint = node, seen, expected, hint


def hop_of(release: Release) -> Hop:
    """What an upgrade needs of a release."""
    version = parse(release.versions.kubernetes)
    if version is None:  # the release's own model refuses that
        raise ValueError(f"{release.name}: no version: {release.versions.kubernetes}")
    return Hop(
        release.name,
        version,
        release.runtime.name,
        release.reached_from,
        release.runtime.socket,
    )


def on_the_way(releases: Mapping[str, Release], to: str) -> dict[str, Release]:
    """The releases that a path to a release may go through, that one included."""
    found, left = {}, [to]
    while left:
        release = releases.get(left.pop())
        # A first release is reached from none: nothing is upgraded to it.
        if release is not None and release.name not in found and release.reached_from:
            found[release.name] = release
            left += release.reached_from
    return found


def find_path(
    nodes: Mapping[str, NodeVersions], hops: Mapping[str, Hop], to: str
) -> tuple[Hop, ...]:
    """The releases to go through, in order; the last is the one asked for.

    The oldest version that runs anywhere decides where the path begins.

    Raises:
        NoPath: a version cannot be read, is newer than the target, or no release leads on from it.
    """
    target = hops[to]
    found = _versions(nodes)
    low_at, lowest = min(found.items(), key=lambda one: (one[1], one[0]))
    high_at, highest = max(found.items(), key=lambda one: one[1])
    if highest > target.kubernetes:
        raise NoPath(
            high_at.partition(":")[0],
            f"{high_at.partition(': ')[2]} {highest}",
            f"at most {target.kubernetes}, as {to} has it",
            f"Kubernetes cannot be downgraded: choose a newer release{_or_without(nodes, high_at)}",
        )
    if lowest == target.kubernetes or _lags(nodes, lowest, target):
        return (target,)
    path = _back(target, hops, lowest)
    if not path:
        ways = ", ".join(target.reached_from) or "no other release"
        raise NoPath(
            low_at.partition(":")[0],
            f"{low_at.partition(': ')[2]} {lowest}",
            f"a release that leads to {to} ({ways})",
            "upgrade to a release on the way first, or use a newer version of this tool"
            f"{_or_without(nodes, low_at)}",
        )
    beyond = [hop for hop in path[1:] if highest > path[0].kubernetes]
    if beyond:
        raise NoPath(
            high_at.partition(":")[0],
            f"versions from {lowest} ({low_at}) to {highest} ({high_at})",
            f"no more than one hop: {path[0].release} first",
            f"end the hop before: appliance cluster upgrade --to {path[0].release}"
            f"{_or_without(nodes, low_at) or _or_without(nodes, high_at)}",
        )
    return path


def _versions(nodes: Mapping[str, NodeVersions]) -> dict[str, Version]:
    """``node: part`` -> version, of everything that has the version of Kubernetes."""
    found = {}
    for node in nodes.values():
        read = node.parsed()
        for part, text in node.texts():
            if part not in read:
                raise NoPath(
                    node.name,
                    f"{part} of version {text or 'unknown'}",
                    "a version of Kubernetes",
                    f"see what runs there: appliance status{_otherwise(node)}",
                )
            found[f"{node.name}: {part}"] = read[part]
    return found


def _or_without(nodes: Mapping[str, NodeVersions], at: str) -> str:
    name = at.partition(":")[0]
    return "" if nodes[name].control_plane else f"; or leave it out: --without {name}"


def _otherwise(node: NodeVersions) -> str:
    """What else helps where a version cannot be read; a worker may say anything of itself."""
    if node.control_plane:
        return "; kubeadm keeps the manifests that it replaced in /etc/kubernetes/tmp on that node"
    return f"; or leave it out: --without {node.name}"


def _lags(nodes: Mapping[str, NodeVersions], lowest: Version, target: Hop) -> bool:
    """Whether the control plane has the release, and workers that were left out come after."""
    control_plane = [one for one in nodes.values() if one.control_plane]
    there = all(
        version == target.kubernetes for one in control_plane for version in one.parsed().values()
    )
    return there and lowest.minors_to(target.kubernetes) <= OLDER_KUBELETS


def _back(target: Hop, hops: Mapping[str, Hop], lowest: Version) -> tuple[Hop, ...]:
    """The shortest chain to the target whose first hop is reached from the lowest version."""
    chains: list[tuple[Hop, ...]] = [(target,)]
    seen = {target.release}
    while chains:
        chain = chains.pop(0)
        before = [hops[name] for name in chain[0].reached_from if name in hops]
        if any(hop.kubernetes == lowest for hop in before):
            return chain if _in_single_minors(chain, lowest) else ()
        for hop in before:
            if hop.release not in seen:
                seen.add(hop.release)
                chains.append((hop, *chain))
    return ()


def _in_single_minors(chain: tuple[Hop, ...], lowest: Version) -> bool:
    """Kubeadm goes one minor at a time, whatever a release file says."""
    versions = [lowest, *(hop.kubernetes for hop in chain)]
    return all(0 <= one.minors_to(two) <= 1 for one, two in pairwise(versions))
