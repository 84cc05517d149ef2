"""Gates: every node is there, may be emptied, and has valid certificates and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

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
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import Evidence
    from appliance.model.upgrade.path import Hop

STATUS: Final = "see what is wrong: appliance status"
# Beyond the forecast of the window: its worst case may be surpassed, and a night may pass.
MARGIN_DAYS: Final = 1.0
# As health reports clocks: the API server accepts tokens within a minute.
MOST_SECONDS_OFF: Final = 5.0
_NODES: Final = Point("nodes", "every node Ready and in service")
_BUDGETS: Final = Point("budgets", "an eviction of every node that can end")
_CERTIFICATES: Final = Point("certificates", "certificates that are valid beyond the window")
_CLOCKS: Final = Point("time", "every clock synchronised")
_DOCKER: Final = Point("docker", "no container of Docker that would end with it and is no pod")
# What is named one by one; the rest is counted.
MOST_NAMED: Final = 5
_IMAGES: Final = Point("images", "the images of the release on every node")


def judged_members(site: Site, evidence: Evidence) -> list[Node]:
    """The members but for those that are left out."""
    return [node for node in site.cluster_members if node.name not in evidence.left_out]


def silence_of(observed: Observed, node: Node) -> Silence:
    """Why a node has no facts."""
    fault = next((fault for fault in observed.faults if fault.node == node.name), None)
    return Silence(fault.reason, fault.hint) if fault else Silence("the node was not read")


def nodes(
    site: Site, observed: Observed, evidence: Evidence, path: Sequence[Hop]
) -> tuple[Gate, ...]:
    """No node is lost, strange, or in maintenance for something else."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return (_NODES.unknown(Silence("no API server answers"), STATUS),)
    ours = {REASON + hop.release for hop in path}
    members = judged_members(site, evidence)
    faults = [gate for node in members for gate in _node(node, observed, cluster, ours)]
    return _NODES.all_of(faults, f"{len(members)} nodes")


def _node(node: Node, observed: Observed, cluster: Cluster, ours: set[str]) -> Iterator[Gate]:
    leave = "" if CONTROL_PLANE in node.groups else f"; or leave it out: --without {node.name}"
    if node.name not in observed.node_facts:
        yield _NODES.unknown(
            silence_of(observed, node),
            f"check that it is powered on and answers ping{leave}",
            node.name,
        )
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
        yield _NODES.stop(member.not_ready_reason or "not Ready", f"{STATUS}{leave}", node.name)


def budgets(site: Site, evidence: Evidence) -> tuple[Gate, ...]:
    """No budget holds an eviction up for good."""
    found = evidence.forecasts
    if isinstance(found, Silence):
        return (_BUDGETS.unknown(found, STATUS),)
    faults = []
    for node in judged_members(site, evidence):
        if evidence.evicted is not None and node.name not in evidence.evicted:
            continue
        if node.name not in found:
            silence = Silence("its pods and their budgets were not read")
            faults.append(_BUDGETS.unknown(silence, STATUS, node.name))
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
        for node in judged_members(site, evidence)
        for gate in _certificates(site, node, observed, days)
    ]
    return _CERTIFICATES.all_of(faults, f"all valid for more than {days:.1f} days")


def _certificates(site: Site, node: Node, observed: Observed, days: float) -> Iterator[Gate]:
    facts = observed.node_facts.get(node.name)
    if facts is None:
        yield _CERTIFICATES.unknown(silence_of(observed, node), STATUS, node.name)
        return
    known = endings(facts)
    listed = [*facts.items("kubernetes.pki"), *facts.items("kubernetes.kubeconfigs")]
    unread = sum(1 for seen in listed if seen.get("not_after")) - len(known)
    if unread or (not known and CONTROL_PLANE in node.groups):
        silence = Silence(f"{unread or 'all'} of its certificates have no end that can be read")
        yield _CERTIFICATES.unknown(silence, STATUS, node.name)
    for one in known:
        if one.left < days:
            yield _CERTIFICATES.stop(
                f"{one.path} {one.ends}", certificate_cure(site, node, one), node.name
            )


def images(site: Site, evidence: Evidence) -> tuple[Gate, ...]:
    """Every node has the images, or the run loads them before anything else."""
    found = evidence.absent_images
    if evidence.images_are_loaded:
        return (_IMAGES.go("not judged yet: the run loads them on every node before kubeadm"),)
    if isinstance(found, Silence):
        return (_IMAGES.unknown(found, STATUS),)
    faults = []
    for node in judged_members(site, evidence):
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
        return (_DOCKER.unknown(Silence("it is not known which nodes change"), STATUS),)
    changing = [node for node in judged_members(site, evidence) if node.name in names]
    faults = [gate for node in changing for gate in _foreign(site, node, observed)]
    well = f"only pods on {len(changing)} nodes that change" if changing else "no node changes"
    return _DOCKER.all_of(faults, well)


def _foreign(site: Site, node: Node, observed: Observed) -> Iterator[Gate]:
    facts = observed.node_facts.get(node.name)
    if facts is None:
        yield _DOCKER.unknown(silence_of(observed, node), STATUS, node.name)
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


def clocks(site: Site, observed: Observed, evidence: Evidence) -> tuple[Gate, ...]:
    """Every clock is synchronised, and none is far off."""
    members = judged_members(site, evidence)
    faults = [gate for node in members for gate in _clock(site, node, observed)]
    return _CLOCKS.all_of(faults, "all synchronised")


def _clock(site: Site, node: Node, observed: Observed) -> Iterator[Gate]:
    facts = observed.node_facts.get(node.name)
    if facts is None:
        yield _CLOCKS.unknown(silence_of(observed, node), STATUS, node.name)
        return
    cure = f"see why: {ssh_command(site, node, 'chronyc tracking')}"
    synchronised, offset = facts.at("clock.synchronised"), facts.at("clock.offset_seconds")
    if synchronised is None:
        yield _CLOCKS.unknown(Silence("its time service did not answer"), cure, node.name)
    elif synchronised is not True:
        yield _CLOCKS.stop("a clock that is not synchronised", cure, node.name)
    elif isinstance(offset, int | float) and abs(offset) > MOST_SECONDS_OFF:
        yield _CLOCKS.stop(f"a clock {abs(offset):.0f} s off", cure, node.name)
