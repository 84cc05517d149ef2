"""Gate: each file system has space for all that an upgrade brings; and how much that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from appliance.model.components.base.subject import size
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.ssh import ssh_command
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.points.gate import Gate, Point
from appliance.model.upgrade.points.nodes import STATUS, judged_members, silence_of

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import Evidence

# Each apply of kubeadm leaves a copy of etcd's data and of the manifests in /etc/kubernetes/tmp.
ETCD_COPIES: Final = 1.1
ETCD_GROWTH: Final = 0.5
# The images of a node of the lab took so much in Docker's store when they were moved.
MOVED_BYTES: Final = 1_300_000_000
# Below these the kubelet or etcd get into trouble whatever an upgrade needs.
SPARE_BYTES: Final = 1 << 30
_DISKS: Final = Point("disk", "space for the images, etcd's copy and its growth")


@dataclass(frozen=True)
class DiskNeed:
    """What comes to one file system of a node, in bytes.

    Attributes:
        mount: where it is mounted.
        needed: with what has to stay free.
        free: now.
    """

    node: str
    mount: str
    needed: int
    free: int


def disk_needs(
    site: Site, observed: Observed, evidence: Evidence
) -> dict[str, tuple[DiskNeed, ...] | Silence]:
    """Node -> what comes to each of its file systems, of every member that is judged."""
    images = evidence.image_bytes
    members = judged_members(site, evidence)
    if isinstance(images, Silence):
        return {node.name: images for node in members}
    return {
        node.name: _of(node, observed, evidence, 0 if _has_all(evidence, node) else images)
        for node in members
    }


def disks(site: Site, observed: Observed, evidence: Evidence) -> tuple[Gate, ...]:
    """Each file system has space for everything that comes to it."""
    if isinstance(evidence.image_bytes, Silence):
        return (_DISKS.unknown(evidence.image_bytes, "give the bundle: --bundle DIR"),)
    faults: list[Gate] = []
    for name, needs in disk_needs(site, observed, evidence).items():
        if isinstance(needs, Silence):
            faults.append(_DISKS.unknown(needs, STATUS, name))
            continue
        for one in needs:
            if one.free < one.needed:
                cure = ssh_command(site, site.node(name), f"sudo du -xh -d 2 {one.mount}")
                lacks = size(one.needed - one.free)
                found = f"{size(one.free)} free on {one.mount}, {lacks} more needed"
                faults.append(_DISKS.stop(found, f"free some: {cure}", name))
    return _DISKS.all_of(faults, "enough on every node")


def _of(
    node: Node, observed: Observed, evidence: Evidence, images: int
) -> tuple[DiskNeed, ...] | Silence:
    facts = observed.node_facts.get(node.name)
    if facts is None:
        return silence_of(observed, node)
    holders = _file_systems(facts)
    needs: Counter[str] = Counter()
    for folder, needed in _needs(node, facts, evidence, images).items():
        holder = holders.get(folder) or holders.get("/var") or holders.get("/")
        if needed is None or holder is None:
            return Silence(f"the size of {folder}, or its free space, was not read")
        needs[holder["mount"]] += needed
    free = {one["mount"]: one["free_bytes"] for one in holders.values()}
    return tuple(
        DiskNeed(node.name, mount, needed + SPARE_BYTES, free[mount])
        for mount, needed in needs.items()
    )


def _has_all(evidence: Evidence, node: Node) -> bool:
    found = evidence.absent_images
    return not isinstance(found, Silence) and found.get(node.name) == ()


def _needs(
    node: Node, facts: NodeFacts, evidence: Evidence, images: int
) -> Mapping[str, int | None]:
    """Folder -> bytes that come to it; None: unknown. Both runtimes' stores may be in use."""
    store = "/var/lib/docker" if facts.at("runtime.docker") else "/var/lib/containerd"
    needs: dict[str, int | None] = {store: images}
    if evidence.runtimes_change and store == "/var/lib/docker":
        # What runs is copied from one store to the other, and nothing is removed meanwhile. A node
        # that has changed already has it in both.
        moves = evidence.changing is None or node.name in evidence.changing
        needs["/var/lib/containerd"] = images + (MOVED_BYTES if moves else 0)
    if CONTROL_PLANE in node.groups:
        data = facts.at("kubernetes.etcd_data.bytes")
        known = data if isinstance(data, int) and not isinstance(data, bool) else None
        needs["/var/lib/etcd"] = None if known is None else int(known * ETCD_GROWTH)
        needs["/etc/kubernetes/tmp"] = None if known is None else int(known * ETCD_COPIES)
        # The snapshot, and the scratch etcd that restores it once.
        needs["/var/lib/appliance"] = None if known is None else int(known * 2 * ETCD_COPIES)
    return needs


def _file_systems(facts: NodeFacts) -> dict[str, dict[str, Any]]:
    """Folder -> its file system, of those that were read whole."""
    found: dict[str, dict[str, Any]] = {}
    for one in facts.items("filesystems"):
        free, mount = one.get("free_bytes"), one.get("mount")
        if isinstance(free, int) and isinstance(mount, str):
            found.update({str(folder): dict(one) for folder in (*one.get("for", ()), mount)})
    if "/" in found:
        found.setdefault("/etc/kubernetes/tmp", found["/"])
    return found
