"""Whether a disk is nearly full, or will be: by what is free, and by earlier looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.components.base.subject import size
from appliance.model.site.settings import Node
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.findings import Finding

NAME: Final = "disks"
# The kubelet's own: below so much free it evicts pods (kubelet 1.23, hard eviction thresholds).
NODEFS: Final = 10.0
IMAGEFS: Final = 15.0
INODES: Final = 5.0
# Error: so many points of percent above it. etcd and the registry do not evict: they fail.
NEAR: Final = 2.0
FULL: Final = 2.0
WARNING_DAYS: Final = 30.0
ERROR_DAYS: Final = 2.0
DAY: Final = 86400.0
HINT: Final = "see what can go: appliance cluster cleanup --dry-run"
_SIGNALS: Final = {
    "/var/lib/kubelet": ("nodefs.available", NODEFS),
    "/var/lib/docker": ("imagefs.available", IMAGEFS),
    "/var/lib/containerd": ("imagefs.available", IMAGEFS),
}


@dataclass(frozen=True)
class Limit:
    """Where a file system is full.

    Attributes:
        percent: of it that is free then.
        what: happens then.
    """

    percent: float
    what: str


def disks(inputs: HealthInputs) -> Answers:
    """No file system that matters is nearly full, or will be within weeks."""
    least: tuple[float, str] | None = None
    for node in inputs.site.nodes:
        facts = inputs.observed.node_facts.get(node.name)
        if facts is None:
            continue
        for found in facts.items("filesystems"):
            percent = _free_percent(found)
            if percent is None or found.get("read_only"):
                continue
            yield from _of_one(inputs, node, facts, found, percent)
            if least is None or percent < least[0]:
                least = (percent, f"{node.name}: {found['mount']}")
    if least is None:
        yield Skipped("no node reported its disks")
        return
    yield f"least free: {least[1]}, {least[0]:.0f} %"


def _of_one(
    inputs: HealthInputs,
    node: Node,
    facts: NodeFacts,
    found: Mapping[str, Any],
    percent: float,
) -> Iterator[Finding]:
    mount, limit = str(found["mount"]), _limit(inputs, node, found)
    seen = f"{percent:.0f} % free on {mount} ({size(found['free_bytes'])})"
    if percent <= limit.percent + NEAR:
        wanted = f"more than {limit.percent + NEAR:.0f} %: at {limit.percent:.0f} % {limit.what}"
        yield Finding(node.name, NAME, "error", seen, wanted, HINT)
        return
    inodes = found.get("free_inodes_percent")
    least = _percent(_evicting(inputs), "nodefs.inodesFree", INODES)
    if isinstance(inodes, int) and inodes <= least + NEAR:
        told = f"{inodes} % of the inodes free on {mount}"
        wanted = f"more than {least + NEAR:.0f} %: at {least:.0f} % the kubelet evicts pods"
        yield Finding(node.name, NAME, "error", told, wanted, HINT)
        return
    history = inputs.disks.get(node.name)
    growth = history.growth(mount) if history else None
    if growth is None or growth <= 0 or facts.received_at is None:
        return
    left = found["free_bytes"] - limit.percent / 100 * found["size_bytes"]
    days = left / growth / DAY
    if days >= WARNING_DAYS:
        return
    day = datetime.fromtimestamp(facts.received_at, UTC) + timedelta(days=days)
    yield Finding(
        node.name,
        NAME,
        "error" if days < ERROR_DAYS else "warning",
        f"{seen}, and {size(growth * DAY)} more each day: {limit.percent:.0f} % on "
        f"{day.date().isoformat()}",
        f"{WARNING_DAYS:.0f} days of space or more: at {limit.percent:.0f} % {limit.what}",
        HINT,
    )


def _limit(inputs: HealthInputs, node: Node, found: Mapping[str, Any]) -> Limit:
    """The first limit that the file system meets as it fills."""
    folders = found.get("for") or ()
    given = _evicting(inputs)
    limits = [Limit(FULL, "what writes there fails")]
    for folder in folders if node.in_cluster else ():
        if folder in _SIGNALS and _is_used(inputs, folder):
            name, usual = _SIGNALS[folder]
            limits.append(Limit(_percent(given, name, usual), "the kubelet evicts pods"))
    return max(limits, key=lambda one: one.percent)


def _evicting(inputs: HealthInputs) -> object:
    """The thresholds that the site gives the kubelet; None: its own."""
    return inputs.site.settings.kubernetes.kubelet.get("evictionHard")


def _is_used(inputs: HealthInputs, folder: str) -> bool:
    """Whether it is the kubelet's folder, or that of the release's container runtime."""
    return folder in {"/var/lib/kubelet", inputs.desired.release.runtime.store}


def _percent(given: object, name: str, usual: float) -> float:
    """The threshold that the site gives the kubelet in percent, or the kubelet's own."""
    if not isinstance(given, Mapping):
        return usual
    text = str(given.get(name, "0%"))
    number = text.removesuffix("%")
    return float(number) if text.endswith("%") and number.replace(".", "", 1).isdigit() else usual


def _free_percent(found: Mapping[str, Any]) -> float | None:
    total, free = found.get("size_bytes"), found.get("free_bytes")
    if not isinstance(total, int) or not isinstance(free, int) or not 0 <= free <= total:
        return None
    return 100 * free / total if total else None
