"""Racks in words: what runs where, for cases of the upgrade's plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.model.state.nodes.maintenance import Maintenance
from appliance.model.state.upgrade import REASON, UpgradeMark
from appliance.model.upgrade.moves.steps import OUT, UpgradeStep
from appliance.model.upgrade.observed import PARTS, NodeVersions
from appliance.model.upgrade.path import Hop
from appliance.model.upgrade.plan import Situation
from appliance.model.upgrade.versions import Version

OLD, NEW, NEXT = "k8s-1.23.5-r1", "k8s-1.23.17-r1", "k8s-1.24.17-r1"
HOPS: Mapping[str, Hop] = {
    hop.release: hop
    for hop in (
        Hop(OLD, Version(1, 23, 5), "docker"),
        Hop(NEW, Version(1, 23, 17), "docker", (OLD,)),
        Hop(NEXT, Version(1, 24, 17), "containerd", (NEW,)),
        # Later releases, to see longer paths.
        Hop("late-1.25", Version(1, 25, 16), "containerd", (NEXT,)),
        Hop("late-1.26", Version(1, 26, 15), "containerd", ("late-1.25",)),
        Hop("docker-1.24", Version(1, 24, 17), "docker", (NEW,)),
        Hop("leaps", Version(1, 25, 16), "docker", (NEW,)),
    )
}
SHORT = {"api": PARTS[0], "manager": PARTS[1], "scheduler": PARTS[2]}


def maintenance(reason: str) -> Maintenance:
    """A node that is out of service for that reason."""
    return Maintenance(
        *("run", "ada", "laptop", "2026-01-01T00:00:00+00:00", "cordon", "out of service"),
        cordoned=True,
        tainted=False,
        reason=reason,
    )


def node(name: str, said: Any) -> NodeVersions:
    """A node: its version, or what differs from the version in ``all``."""
    given: dict[str, Any] = dict(said) if isinstance(said, Mapping) else {"all": said}
    tag = f"v{given.get('all', '1.23.5')}"
    own = {key: f"v{value}" for key, value in given.items() if key in (*SHORT, "kubelet", "proxy")}
    is_control_plane = name.startswith("cp")
    out = given.get("out")
    return NodeVersions(
        name,
        is_control_plane,
        own.get("kubelet", tag),
        {part: own.get(key, tag) for key, part in SHORT.items()} if is_control_plane else {},
        own.get("proxy", tag),
        given.get("runtime", "docker"),
        ready=given.get("ready", True),
        maintenance=maintenance(REASON + out if str(out) in HOPS else out) if out else None,
        seen="away" not in given,
    )


def situation(case: Mapping[str, Any]) -> Situation:
    """The situation that a case describes."""
    nodes = {
        name: None if said == "no member" else node(name, said)
        for name, said in case["nodes"].items()
    }
    away = {
        name: said["away"]
        for name, said in case["nodes"].items()
        if isinstance(said, Mapping) and "away" in said
    }
    to = case.get("under_way")
    mark = UpgradeMark(to, "2026-01-01T00:00:00+00:00", "ada on laptop") if to else None
    return Situation(nodes, away, mark, case.get("mirrored", ""), leader=case.get("leader", ""))


def words(step: UpgradeStep) -> str:
    """A step as cases write it."""
    if step.kind == "control_plane":
        return f"{step.action} {step.nodes[0]}"
    nodes = " ".join(step.nodes) if step.kind in OUT else ""
    return f"{step.kind.removeprefix('kubernetes_')} {nodes}".strip()
