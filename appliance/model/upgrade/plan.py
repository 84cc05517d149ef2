"""An upgrade's plan: its path and steps from what runs now; and what forbids it.

Nothing is remembered: a run that was killed anywhere is planned again from what it left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from appliance.model.state.plan import Refusal
from appliance.model.state.upgrade import UpgradeMark
from appliance.model.upgrade.moves.room import Room
from appliance.model.upgrade.moves.steps import (
    CHANGES,
    OUT,
    Order,
    UpgradeStep,
    after,
    steps_of_path,
)
from appliance.model.upgrade.observed import NodeVersions, skew
from appliance.model.upgrade.path import Hop, NoPath, find_path

CHECK: Final = "upgrade"


@dataclass(frozen=True)
class UpgradePlan:
    """What will run, and what forbids it.

    Attributes:
        hops: the releases on the way, the one asked for last.
        steps: of all hops, up to the pause.
        refusals: what must be fixed first.
        without: workers that are left out by name.
        paused_after: the node or release after which the run ends; empty: it runs to its end.
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
        pause_after: the node that is back, or the release that is complete, when the run ends;
            empty: it runs to its end.
        max_unavailable: how many workers are out at a time.
        back: the node on which the last step is taken back; empty: the upgrade goes forward.
        without_backup: it begins although the site's newest backup is not fresh.
    """

    to: str
    without: tuple[str, ...] = ()
    pause_after: str = ""
    max_unavailable: int = 1
    back: str = ""
    without_backup: bool = False


@dataclass(frozen=True)
class Situation:
    """What was found.

    Attributes:
        nodes: every member of the site -> what runs there; None: it is no member.
        away: node -> why its machine did not answer.
        mark: of an upgrade that is under way.
        mirrored: the release whose bundle the services node holds; empty: none, or unknown.
        services: the node that serves the bundle.
        leader: the control-plane node whose etcd leads; empty: not known.
        etcd_down: control-plane nodes whose etcd is down.
        room: what bounds a batch of workers; None: nothing but the option.
    """

    nodes: Mapping[str, NodeVersions | None]
    away: Mapping[str, str] = field(default_factory=dict)
    mark: UpgradeMark | None = None
    mirrored: str = ""
    services: str = ""
    leader: str = ""
    etcd_down: frozenset[str] = frozenset()
    room: Room | None = None


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
        hint = _as_before(options, found, asked, hops) or none.hint
        refusal = Refusal(none.node, CHECK, none.seen, none.expected, hint)
        return UpgradePlan(refusals=(refusal,), without=options.without)
    refusals += _of_runtimes(asked, path)
    refusals += _of_skew(options, found, asked, path)
    at_once = options.max_unavailable
    order = Order(options.to, at_once, found.leader, found.etcd_down, found.room)
    steps = steps_of_path(path, asked, hops, order, found.mirrored)
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


def _as_before(
    options: UpgradeOptions,
    found: Situation,
    asked: Mapping[str, NodeVersions],
    hops: Mapping[str, Hop],
) -> str:
    """What to type where a path is barred only by nodes that the upgrade has left out so far."""
    mark = found.mark
    if mark is None or mark.over or mark.release != options.to:
        return ""
    again = [name for name in mark.without if name in asked]
    rest = {name: node for name, node in asked.items() if name not in again}
    try:
        find_path(rest, hops, options.to)
    except (NoPath, ValueError):
        return ""
    left = (*options.without, *again)
    words = "".join(f" --without {name}" for name in left)
    return f"leave out what was left out before: {mark.command}{words}"


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
        leave = f"; or leave it out: --without {name}" if is_worker else ""
        if name in found.away:
            yield Refusal(
                name,
                CHECK,
                found.away[name].removeprefix(f"{name}: "),
                "an answer",
                "check that it is powered on and answers ping"
                f"{leave or f'; if it is lost: appliance node remove {name}'}",
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
    """Refuse a container runtime that a release of the path neither has nor changes."""
    for node in nodes.values():
        runtime, leave = (
            node.runtime,
            "" if node.control_plane else f"; or leave it out: --without {node.name}",
        )
        for hop in path:
            if runtime not in ("", hop.runtime) and (runtime, hop.runtime) not in CHANGES:
                yield Refusal(
                    node.name,
                    "runtime",
                    f"the container runtime {runtime}",
                    f"{hop.runtime}, as {hop.release} has it",
                    f"choose a release with {runtime}: this tool changes Docker to containerd only"
                    f"{leave}",
                )
                break
            runtime = hop.runtime


def _of_skew(
    options: UpgradeOptions,
    found: Situation,
    asked: Mapping[str, NodeVersions],
    path: Sequence[Hop],
) -> list[Refusal]:
    """Refuse what may not run side by side now, or would not with the nodes that are left out."""
    left = {n: v for n in options.without if (v := found.nodes.get(n)) is not None}
    faults = [*skew(asked), *(f for hop in path for f in skew({**after(asked, hop), **left}))]
    return [
        Refusal(name, CHECK, _seen(fault), _SIDE_BY_SIDE, _SKEW + _or_out(name, found, options))
        for fault in dict.fromkeys(faults)
        for name in [fault.partition(":")[0]]
    ]


def _or_out(name: str, found: Situation, options: UpgradeOptions) -> str:
    """How else a worker that is too old ends to be in the way: it may say anything of itself."""
    node = found.nodes.get(name)
    if node is None or node.control_plane:
        return ""
    if name in options.without:
        return f"; or take it out of the cluster: appliance node remove {name}"
    return f"; or leave it out: --without {name}"


def _seen(fault: str) -> str:
    """A fault without the name of its node."""
    return fault.partition(": ")[2] or fault


def _until(steps: Sequence[UpgradeStep], pause_after: str) -> list[UpgradeStep]:
    """The steps up to the one after which the run pauses: of a node, or of a whole release."""
    if not pause_after:
        return list(steps)
    back = [n for n, one in enumerate(steps) if pause_after in one.nodes and one.kind in OUT][:1]
    whole = [n for n, one in enumerate(steps) if one.release == pause_after][-1:]
    at = back or whole
    return list(steps[: at[0] + 1]) if at else list(steps)
