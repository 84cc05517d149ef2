"""The plan of a lab that is like a site: from its files and its last facts, without asking it.

What must not be here: how a lab is made (:mod:`appliance.lab.like`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Network
from typing import Any, Final

from appliance.errors import PreflightFailed
from appliance.model.documents.typed_json import Line, NodeName, read_typed
from appliance.model.site import groups
from appliance.model.site.settings import Node, Site
from appliance.model.state.journal import Record
from appliance.model.support.redaction import redacted
from appliance.model.upgrade.rehearsal.handmade import (
    KUBELET,
    Handmade,
    names_file,
    reason_not_made,
)
from appliance.model.upgrade.rehearsal.kinds import Represented, one_of_each
from appliance.model.upgrade.rehearsal.last_facts import LastCluster, LastFacts
from appliance.model.upgrade.rehearsal.site_window import Took, taken

SCHEMA: Final = 1
MOST_BYTES: Final = 4 << 20
# The nodes of a lab are privileged containers of the operator's machine, and a worker writes what
# it likes into its kubelet's file: nothing of it may start a program there, or let others do so.
_OTHERS: Final = "it would run programs of others in the lab"
_OF_OTHERS: Final = ("staticpodurl", "staticpodurlheader", "staticpodpath")
_CLOSED: Final = {
    ("authentication", "anonymous", "enabled"): False,
    ("authorization", "mode"): "Webhook",
}
_PROGRAMS: Final = {"kube-proxy": "/usr/local/bin/kube-proxy", "coredns": "/coredns"}
# Of each worker: as many as a lab's node can have.
MOST_GPUS: Final = 16
MOST_WORKERS: Final = 20
_LAB_RANGE: Final = IPv4Network("198.18.0.0/16")
# Of a lab's own API and of its mirror: a registry cannot have them as well.
_LAB_PORTS: Final = (6443, 8443, 9443)
_GIB: Final = 1 << 30
# What a node of a lab takes, measured on labs of three nodes: see the requirements of the README.
_CONTROL_PLANE_GIB: Final = 2.0
_WORKER_GIB: Final = 1.0


@dataclass(frozen=True)
class LikeNode:
    """One node of the lab, with the name that it has on the site.

    Attributes:
        groups: of the inventory.
        gpus: how many stand-ins it has.
        labels: the operator's and Run:ai's, of its Node object.
        taints: ``key=value:effect``, likewise.
        seen: when its facts were seen; empty for a node that needs none.
        handmade: its hand-made settings.
        stands_for: other workers of its kind, which are not in the lab.
    """

    name: NodeName
    control_plane: bool
    groups: tuple[Line, ...]
    gpus: int = 0
    labels: Mapping[Line, Line] = field(default_factory=dict)
    taints: tuple[Line, ...] = ()
    seen: Line = ""
    handmade: tuple[Handmade, ...] = ()
    stands_for: tuple[NodeName, ...] = ()


@dataclass(frozen=True)
class Likeness:
    """A lab that is like a site.

    Attributes:
        site: the site's name.
        release: what the site runs, and the lab installs.
        nodes: the services node first where it is a member, then as the inventory has them.
        cluster: hand-made settings of the cluster as a whole.
        differences: what the lab has otherwise than the site, one sentence each.
        kubelet: ``kubernetes.kubelet`` of the site's site.yml.
        took: how long steps took on the site, by its journal.
        carried: ``pod_cidr``, ``service_cidr`` and ``registry`` of the site's site.yml, as far as a
            lab can have them: objects of a backup name them.
        origin: sha256 that tells sites of one name apart; empty: an older version wrote it.
    """

    site: Line
    release: Line
    nodes: tuple[LikeNode, ...]
    cluster: tuple[Handmade, ...] = ()
    differences: tuple[str, ...] = ()
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    took: tuple[Took, ...] = ()
    origin: Line = ""
    carried: Mapping[Line, Line] = field(default_factory=dict)

    @property
    def stands_for(self) -> Mapping[str, tuple[str, ...]]:
        """Node -> the workers of its kind that are not in the lab."""
        return {node.name: node.stands_for for node in self.nodes if node.stands_for}

    @property
    def gpus(self) -> Mapping[str, int]:
        """Node -> its GPUs, of those that have some."""
        return {node.name: node.gpus for node in self.nodes if node.gpus}

    def settings(self) -> Iterator[tuple[Handmade, tuple[str, ...]]]:
        """Each hand-made setting with the nodes that have it; none: the cluster as a whole."""
        found: dict[tuple[str, str, str], tuple[Handmade, list[str]]] = {}
        for node in self.nodes:
            for one in node.handmade:
                found.setdefault((one.name, one.was, one.will), (one, []))[1].append(node.name)
        yield from ((one, tuple(nodes)) for one, nodes in found.values())
        yield from ((one, ()) for one in self.cluster)

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"schema": SCHEMA, **asdict(self)}


def read_likeness(content: str | bytes) -> Likeness:
    """Read what a lab was made from.

    Raises:
        NewerSchema: a later version wrote it.
        Unreadable: it is no such document.
    """
    return read_typed(content, Likeness, newest_schema=SCHEMA, most_bytes=MOST_BYTES)


@dataclass(frozen=True)
class SeenSite:
    """What is known of a site without asking it.

    Attributes:
        site: what its files say.
        kubernetes: the version of its release, e.g. ``v1.23.5``.
        nodes: node -> its last facts.
        cluster: None: no look has seen it.
        records: of its journal.
        folder: where its files are on this machine, without links.
    """

    site: Site
    release: str
    kubernetes: str
    nodes: Mapping[str, LastFacts]
    cluster: LastCluster | None = None
    records: Sequence[Record] = ()
    folder: str = ""


def origin_of(found: SeenSite) -> str:
    """What tells a site from others of its name: its folder, its API and its control plane."""
    site = found.site
    endpoint = site.settings.control_plane_endpoint
    masters = sorted(f"{node.name} {node.ip}" for node in site.control_plane)
    words = [found.folder, site.name, f"{endpoint.name}:{endpoint.port}", *masters]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def plan_likeness(found: SeenSite) -> Likeness:
    """Plan the lab, or refuse with everything that is missing.

    Raises:
        PreflightFailed: a control-plane node was never seen, or versions are mixed.
    """
    faults = [*_unseen(found), *_mixed(found)]
    if faults:
        first, *others = faults
        raise PreflightFailed(
            f"no lab can be made like {found.site.name}: {first}",
            hint=f"look at it once, where it can be reached: appliance status --site "
            f"{found.site.directory}",
            details=others,
        )
    workers = [node for node in found.site.workers if _is_seen(found, node)]
    chosen = one_of_each(workers, found.nodes)[:MOST_WORKERS]
    nodes = tuple(_nodes(found, chosen))
    cluster = found.cluster.handmade if found.cluster else None
    return Likeness(
        found.site.name,
        found.release,
        nodes,
        cluster.settings if cluster else (),
        tuple(_differences(found, nodes, workers)),
        carried_kubelet(found.site),
        taken(found.records),
        origin_of(found),
        dict(_carried(found.site)),
    )


def _carried(site: Site) -> Iterator[tuple[str, str]]:
    network = site.settings.network
    ranges = {"pod_cidr": network.pod_cidr, "service_cidr": network.service_cidr}
    if not any(one.overlaps(_LAB_RANGE) for one in ranges.values()):
        yield from ((key, str(one)) for key, one in ranges.items())
    if site.settings.external_registry is None and site.registry_port not in _LAB_PORTS:
        yield "registry", str(site.settings.registry)


def _is_seen(found: SeenSite, node: Node) -> bool:
    facts = found.nodes.get(node.name)
    return facts is not None and facts.machine is not None and facts.member is not None


def _unseen(found: SeenSite) -> Iterator[str]:
    for node in found.site.control_plane:
        if not _is_seen(found, node):
            yield f"no look has kept facts of control-plane node {node.name}"
        elif found.nodes[node.name].handmade is None:
            yield f"no look has read the hand-made settings of {node.name}"
    if found.cluster is None:
        yield "no look has seen its cluster"


def _mixed(found: SeenSite) -> Iterator[str]:
    if found.cluster is not None and found.cluster.upgrading:
        yield found.cluster.upgrading
        return
    for node in found.site.cluster_members:
        facts = found.nodes.get(node.name)
        member = facts.member if facts else None
        if member is not None and member.kubelet not in ("", found.kubernetes):
            yield (
                f"{node.name} ran {member.kubelet} on {member.seen[:10]}, and {found.release} has "
                f"{found.kubernetes}; give the release that it runs: --release"
            )


def _nodes(found: SeenSite, chosen: Sequence[Represented]) -> Iterator[LikeNode]:
    services = found.site.services_node
    workers = {one.node: one.others for one in chosen}
    for node in sorted(found.site.nodes, key=lambda node: node.name != services.name):
        control_plane = groups.CONTROL_PLANE in node.groups
        if not (control_plane or node.name == services.name or node.name in workers):
            continue
        facts = found.nodes.get(node.name, LastFacts(node.name))
        member = facts.member if node.in_cluster else None
        count = sum(facts.machine.gpus.values()) if facts.machine and not control_plane else 0
        yield LikeNode(
            node.name,
            control_plane,
            tuple(sorted(node.groups)),
            min(count, MOST_GPUS),
            dict(member.labels) if member else {},
            member.taints if member else (),
            facts.machine.seen if facts.machine else "",
            facts.handmade.settings if facts.handmade and node.in_cluster else (),
            workers.get(node.name, ()),
        )


def _differences(
    found: SeenSite, nodes: Sequence[LikeNode], seen_workers: Sequence[Node]
) -> Iterator[str]:
    yield from _left_out(found, nodes, seen_workers)
    for lab_node in nodes:
        yield from _of_node(found, lab_node)
    workers = [node for node in nodes if node.name in {one.name for one in seen_workers}]
    if len(workers) == 1 and workers[0].stands_for:
        yield (
            f"{workers[0].name} is the only worker: its pods have nowhere to go, so an upgrade "
            "there needs --allow-outage"
        )
    yield (
        "addresses are of 198.18.0.0/16, names of services but the registry's end with .test, "
        "secrets are the lab's"
    )
    need = sum(_CONTROL_PLANE_GIB if node.control_plane else _WORKER_GIB for node in nodes)
    yield f"all nodes share this machine's memory and disk; they need about {need:.0f} GiB"
    yield from _of_settings(found.site)


def _left_out(
    found: SeenSite, nodes: Sequence[LikeNode], seen_workers: Sequence[Node]
) -> Iterator[str]:
    in_lab = {node.name for node in nodes} | {n for node in nodes for n in node.stands_for}
    for node in found.site.nodes:
        if node.name in in_lab:
            continue
        if node in seen_workers:
            yield f"{node.name} is not in the lab: a lab has at most {MOST_WORKERS} workers"
        elif node.in_cluster:
            yield f"{node.name} is not in the lab: no look has kept its facts"
        else:
            yield f"{node.name} is not in the lab: it is no member of the cluster"


def _of_settings(site: Site) -> Iterator[str]:
    settings = site.settings
    if settings.runai is not None:
        yield "Run:ai is in the lab only with --with runai, and there it is a stand-in"
    present = {
        "nfs": settings.nfs is not None,
        "external_registry": settings.external_registry is not None,
        "role_overrides": bool(settings.role_overrides),
        "kubernetes.kube_proxy": bool(settings.kubernetes.kube_proxy),
    }
    yield from (f"{key} of site.yml is not in the lab" for key, there in present.items() if there)
    for key in sorted(settings.kubernetes.kubelet.keys() - carried_kubelet(site).keys()):
        yield f"kubernetes.kubelet.{key} of site.yml is not in the lab: it names a file or a secret"


def carried_kubelet(site: Site) -> dict[str, Any]:
    """``kubernetes.kubelet`` of site.yml, without secrets and without names of files."""
    return {
        key: value
        for key, value in site.settings.kubernetes.kubelet.items()
        if redacted({key: value}) == {key: value} and not names_file(value)
    }


def _of_node(found: SeenSite, node: LikeNode) -> Iterator[str]:
    facts = found.nodes.get(node.name)
    if facts is None or facts.machine is None:
        return
    machine, member = facts.machine, facts.member
    memory = f"{machine.memory_bytes / _GIB:.0f} GiB of memory"
    yield (
        f"{node.name} is a container: on the site it runs {machine.operating_system} with kernel "
        f"{machine.kernel or 'unknown'}, {machine.threads} threads and {memory}"
    )
    if node.gpus:
        kinds = ", ".join(f"{count} of {name}" for name, count in sorted(machine.gpus.items()))
        yield f"{node.name}: its GPUs are stand-ins: {kinds}"
    if member is not None and member.unschedulable:
        yield f"{node.name} took no pods on the site; in the lab it does"


def made_in_lab(like: Likeness, one: Handmade, reserved: Sequence[str]) -> str:
    """Why a setting of the site is not made in the lab by hand; empty: it is.

    Args:
        like: the lab.
        one: the setting.
        reserved: keys of the kubelet's configuration that the lab needs for itself.
    """
    if one.part == KUBELET and one.there and one.value is not None:
        carried: Any = like.kubelet
        for key in one.keys:
            carried = carried.get(key) if isinstance(carried, Mapping) else None
        if carried == one.value:
            return "site.yml carries it, and the lab's does too"
    return reason_not_made(one, reserved) or (_OTHERS if _lets_others_in(one) else "")


def _lets_others_in(one: Handmade) -> bool:
    if one.part == KUBELET:
        is_open = one.value != _CLOSED.get(one.keys, one.value)
        return one.there and (is_open or one.keys[0].lower() in _OF_OTHERS)
    # Without a command, the arguments of a pod are one.
    words = one.value if one.there and isinstance(one.value, list) else ()
    return one.keys == ("command",) and list(words[:1]) != [_PROGRAMS.get(one.part)]
