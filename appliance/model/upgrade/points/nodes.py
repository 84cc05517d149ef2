"""Gates: every node is there, may be emptied, and has valid certificates, space and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from appliance.model.components.control_plane.certificates import cure as certificate_cure
from appliance.model.components.control_plane.certificates import endings
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.ssh import ssh_command
from appliance.model.state.certificates import DAY
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import maintenance_of
from appliance.model.state.upgrade import REASON
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.points.gate import Gate, Point

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import Evidence
    from appliance.model.upgrade.path import Hop

MB: Final = 1000 * 1000
_STATUS: Final = "see what is wrong: appliance status"
# Beyond the forecast of the window: its worst case may be surpassed, and a night may pass.
MARGIN_DAYS: Final = 1.0
# As health reports clocks: the API server accepts tokens within a minute.
MOST_SECONDS_OFF: Final = 5.0
# Each apply of kubeadm leaves a copy of etcd's data and of the manifests in /etc/kubernetes/tmp.
ETCD_COPIES: Final = 1.1
ETCD_GROWTH: Final = 0.5
# The images of a node of the lab took so much in Docker's store when they were moved.
MOVED_BYTES: Final = 1_300_000_000
# Below these the kubelet or etcd get into trouble whatever an upgrade needs.
SPARE_BYTES: Final = 1 << 30
_NODES: Final = Point("nodes", "every node Ready and in service")
_BUDGETS: Final = Point("budgets", "an eviction of every node that can end")
_CERTIFICATES: Final = Point("certificates", "certificates that are valid beyond the window")
_DISKS: Final = Point("disk", "space for the images, etcd's copy and its growth")
_CLOCKS: Final = Point("time", "every clock synchronised")
_DOCKER: Final = Point("docker", "no container of Docker that would end with it and is no pod")
# What is named one by one; the rest is counted.
MOST_NAMED: Final = 5
_IMAGES: Final = Point("images", "the images of the release on every node")


def _members(site: Site, evidence: Evidence) -> list[Node]:
    return [node for node in site.cluster_members if node.name not in evidence.left_out]


def _silent(observed: Observed, node: Node) -> Silence:
    fault = next((fault for fault in observed.faults if fault.node == node.name), None)
    return Silence(fault.reason, fault.hint) if fault else Silence("the node was not read")


def nodes(
    site: Site, observed: Observed, evidence: Evidence, path: Sequence[Hop]
) -> tuple[Gate, ...]:
    """No node is lost, strange, or in maintenance for something else."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return (_NODES.unknown(Silence("no API server answers"), _STATUS),)
    ours = {REASON + hop.release for hop in path}
    members = _members(site, evidence)
    faults = [gate for node in members for gate in _node(node, observed, cluster, ours)]
    return _NODES.all_of(faults, f"{len(members)} nodes")


def _node(node: Node, observed: Observed, cluster: Cluster, ours: set[str]) -> Iterator[Gate]:
    leave = "" if CONTROL_PLANE in node.groups else f", or --without {node.name}"
    if node.name not in observed.node_facts:
        yield _NODES.unknown(_silent(observed, node), f"bring it up{leave}", node.name)
    member = cluster.nodes.get(node.name)
    if member is None:
        yield _NODES.stop("no member of the cluster", f"appliance install{leave}", node.name)
        return
    maintenance = maintenance_of(member.annotations)
    if maintenance is not None and maintenance.reason in ours:
        return
    if maintenance is not None:
        cure = f"appliance node return {node.name}{leave}"
        yield _NODES.stop(maintenance.sentence(), cure, node.name)
    elif not member.ready:
        yield _NODES.stop(member.not_ready_reason or "not Ready", f"{_STATUS}{leave}", node.name)


def budgets(site: Site, evidence: Evidence) -> tuple[Gate, ...]:
    """No budget holds an eviction up for good."""
    found = evidence.forecasts
    if isinstance(found, Silence):
        return (_BUDGETS.unknown(found, _STATUS),)
    faults = []
    for node in _members(site, evidence):
        if evidence.evicted is not None and node.name not in evidence.evicted:
            continue
        if node.name not in found:
            silence = Silence("its pods and their budgets were not read")
            faults.append(_BUDGETS.unknown(silence, _STATUS, node.name))
            continue
        for concern in found[node.name].by("blocks"):
            faults.append(_BUDGETS.stop(concern.sentence(), concern.cure, node.name))
    return _BUDGETS.all_of(faults, "no budget blocks")


def days_beyond(window_seconds: float) -> float:
    """How many days a certificate has to be valid for a window."""
    return window_seconds / DAY + MARGIN_DAYS


def certificates(site: Site, observed: Observed, evidence: Evidence) -> tuple[Gate, ...]:
    """No certificate of Kubernetes ends within the window."""
    window = evidence.window_seconds
    if isinstance(window, Silence):
        return (_CERTIFICATES.unknown(window, "see the forecast: --dry-run"),)
    days = days_beyond(window)
    faults = [
        gate
        for node in _members(site, evidence)
        for gate in _certificates(site, node, observed, days)
    ]
    return _CERTIFICATES.all_of(faults, f"all valid for more than {days:.1f} days")


def _certificates(site: Site, node: Node, observed: Observed, days: float) -> Iterator[Gate]:
    facts = observed.node_facts.get(node.name)
    if facts is None:
        yield _CERTIFICATES.unknown(_silent(observed, node), _STATUS, node.name)
        return
    known = endings(facts)
    listed = [*facts.items("kubernetes.pki"), *facts.items("kubernetes.kubeconfigs")]
    unread = sum(1 for seen in listed if seen.get("not_after")) - len(known)
    if unread or (not known and CONTROL_PLANE in node.groups):
        silence = Silence(f"{unread or 'all'} of its certificates have no end that can be read")
        yield _CERTIFICATES.unknown(silence, _STATUS, node.name)
    for one in known:
        if one.left < days:
            yield _CERTIFICATES.stop(
                f"{one.path} {one.ends}", certificate_cure(site, node, one), node.name
            )


def images(site: Site, evidence: Evidence) -> tuple[Gate, ...]:
    """Every node has the images, or the run loads them before anything else."""
    found = evidence.absent_images
    if evidence.images_are_loaded:
        return (_IMAGES.go("the run loads them on every node first"),)
    if isinstance(found, Silence):
        return (_IMAGES.unknown(found, _STATUS),)
    faults = []
    for node in _members(site, evidence):
        absent = found.get(node.name, Silence("its images were not read"))
        again = "run the same command again: it loads what is absent"
        if isinstance(absent, Silence):
            faults.append(_IMAGES.unknown(absent, again, node.name))
        elif absent:
            more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
            faults.append(_IMAGES.stop(f"no {', '.join(absent[:3])}{more}", again, node.name))
    return _IMAGES.all_of(faults, "all present")


def foreign_containers(site: Site, observed: Observed, evidence: Evidence) -> tuple[Gate, ...]:
    """Docker runs nothing but pods where it is replaced: anything else would end with it."""
    names = evidence.changing
    if names is None:
        return (_DOCKER.unknown(Silence("it is not known which nodes change"), _STATUS),)
    changing = [node for node in _members(site, evidence) if node.name in names]
    faults = [gate for node in changing for gate in _foreign(site, node, observed)]
    well = f"only pods on {len(changing)} nodes that change" if changing else "no node changes"
    return _DOCKER.all_of(faults, well)


def _foreign(site: Site, node: Node, observed: Observed) -> Iterator[Gate]:
    facts = observed.node_facts.get(node.name)
    if facts is None:
        yield _DOCKER.unknown(_silent(observed, node), _STATUS, node.name)
        return
    found = facts.at("runtime.docker.foreign_running")
    see = ssh_command(site, node, "sudo docker ps")
    if found is None:
        # Where Docker does not run, a change of the runtime was begun, and has ended them all.
        if facts.at("runtime.docker.version") is not None:
            silence = Silence("Docker did not list its containers")
            yield _DOCKER.unknown(silence, f"see why: {see}", node.name)
        return
    if found:
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        named = ", ".join(found[:MOST_NAMED])
        yield _DOCKER.stop(f"{named}{more}", f"move or stop them: {see}", node.name)


def disks(site: Site, observed: Observed, evidence: Evidence) -> tuple[Gate, ...]:
    """Each file system has space for everything that comes to it."""
    size = evidence.image_bytes
    if isinstance(size, Silence):
        return (_DISKS.unknown(size, "give the bundle: --bundle DIR"),)
    faults = [
        gate
        for node in _members(site, evidence)
        for gate in _disk(site, node, observed, evidence, 0 if _has_all(evidence, node) else size)
    ]
    return _DISKS.all_of(faults, "enough on every node")


def _has_all(evidence: Evidence, node: Node) -> bool:
    found = evidence.absent_images
    return not isinstance(found, Silence) and found.get(node.name) == ()


def _disk(
    site: Site, node: Node, observed: Observed, evidence: Evidence, size: int
) -> Iterator[Gate]:
    facts = observed.node_facts.get(node.name)
    if facts is None:
        yield _DISKS.unknown(_silent(observed, node), _STATUS, node.name)
        return
    holders = _file_systems(facts)
    needs: Counter[str] = Counter()
    for folder, needed in _needs(node, facts, evidence, size).items():
        holder = holders.get(folder) or holders.get("/var") or holders.get("/")
        if needed is None or holder is None:
            silence = Silence(f"the size of {folder}, or its free space, was not read")
            yield _DISKS.unknown(silence, _STATUS, node.name)
            return
        needs[holder["mount"]] += needed
    free = {one["mount"]: one["free_bytes"] for one in holders.values()}
    for mount, needed in needs.items():
        if free[mount] < needed + SPARE_BYTES:
            yield _DISKS.stop(
                f"{free[mount] // MB} MB free on {mount}, {(needed + SPARE_BYTES) // MB} MB needed",
                f"free some: {ssh_command(site, node, f'sudo du -xh -d 2 {mount}')}",
                node.name,
            )


def _needs(node: Node, facts: NodeFacts, evidence: Evidence, size: int) -> Mapping[str, int | None]:
    """Folder -> bytes that come to it; None: unknown. Both runtimes' stores may be in use."""
    store = "/var/lib/docker" if facts.at("runtime.docker") else "/var/lib/containerd"
    needs: dict[str, int | None] = {store: size}
    if evidence.runtimes_change and store == "/var/lib/docker":
        # What runs is copied from one store to the other, and nothing is removed meanwhile. A node
        # that has changed already has it in both.
        moves = evidence.changing is None or node.name in evidence.changing
        needs["/var/lib/containerd"] = size + (MOVED_BYTES if moves else 0)
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


def clocks(site: Site, observed: Observed, evidence: Evidence) -> tuple[Gate, ...]:
    """Every clock is synchronised, and none is far off."""
    members = _members(site, evidence)
    faults = [gate for node in members for gate in _clock(site, node, observed)]
    return _CLOCKS.all_of(faults, "all synchronised")


def _clock(site: Site, node: Node, observed: Observed) -> Iterator[Gate]:
    facts = observed.node_facts.get(node.name)
    if facts is None:
        yield _CLOCKS.unknown(_silent(observed, node), _STATUS, node.name)
        return
    cure = f"see why: {ssh_command(site, node, 'chronyc tracking')}"
    synchronised, offset = facts.at("clock.synchronised"), facts.at("clock.offset_seconds")
    if synchronised is None:
        yield _CLOCKS.unknown(Silence("its time service did not answer"), cure, node.name)
    elif synchronised is not True:
        yield _CLOCKS.stop("a clock that is not synchronised", cure, node.name)
    elif isinstance(offset, int | float) and abs(offset) > MOST_SECONDS_OFF:
        yield _CLOCKS.stop(f"a clock {abs(offset):.0f} s off", cure, node.name)
