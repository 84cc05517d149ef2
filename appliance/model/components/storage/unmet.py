"""When is shared storage ready on a node? Judged from facts and the API, like every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.site.settings import Node
from appliance.model.site.shared_storage import STORAGE_CLASS, WRITER, Export, export_of
from appliance.model.state.cluster import Cluster, Volume

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Observed

NFS_PORT = 2049
UNITS = {"kernel": "nfs-server", "ganesha": "nfs-ganesha"}


def storage(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The export answers, user 1001 wrote there from every member, and volumes exist."""
    export = export_of(desired.site)
    if export is None:
        return
    facts = observed.node_facts[node.name]
    if node == export.node:
        yield from _server(facts, desired, export)
    yield from _export(facts, export)
    if node.in_cluster:
        yield from _client(facts, export)
    if node == desired.site.control_plane[0]:
        yield from _volumes(export, observed)


def _server(facts: NodeFacts, desired: Desired, export: Export) -> Iterator[str]:
    kind = str(desired.override("nfs_server", "implementation") or "kernel")
    unit = facts.unit(UNITS[kind])
    if facts.at("storage.served") != kind:
        yield f"the {kind} NFS server is not configured to export {export.path}"
    if unit.get("active") != "active":
        yield f"{UNITS[kind]} does not run"
    elif unit.get("enabled") != "enabled":
        yield f"{UNITS[kind]} does not start at boot"
    if kind == "kernel" and _answers_udp(facts):
        yield f"{UNITS[kind]} answers over UDP, where a client can forge its address"


def _answers_udp(facts: NodeFacts) -> bool:
    return any(
        (socket.get("port"), socket.get("proto")) == (NFS_PORT, "udp")
        for socket in facts.items("listening")
    )


def _export(facts: NodeFacts, export: Export) -> Iterator[str]:
    seen = facts.at("storage.export") or {}
    if not seen.get("visible"):
        yield f"{export.source} is not available: {seen.get('error') or 'not checked'}"
        return
    if WRITER not in seen.get("writers", ()):
        yield f"user {WRITER} may not write in {export.source}"
        return
    absent = [name for name in export.folders if name not in seen.get("folders", ())]
    if absent:
        yield f"{export.source} lacks a folder that user {WRITER} may write: {absent[0]}"


def _client(facts: NodeFacts, export: Export) -> Iterator[str]:
    if "nfs-common" not in (facts.at("packages.installed") or {}):
        yield "nfs-common is not installed"
    if not facts.at("storage.client"):
        yield "its kernel has no NFS client"
    test = facts.at("storage.proof") or {}
    if (test.get("server"), test.get("path")) != (export.server, export.path):
        yield f"that user {WRITER} can write to {export.source} has not been tested from here"


def _volume(name: str, place: str, volume: Volume | None) -> Iterator[str]:
    if volume is None:
        yield f"the cluster has no PersistentVolume {name}"
    elif volume.source != place:
        yield f"PersistentVolume {name} is {volume.source}, not {place}"
    elif volume.phase == "Failed":
        yield f"PersistentVolume {name} has failed: {volume.reason or 'no reason given'}"


def _volumes(export: Export, observed: Observed) -> Iterator[str]:
    if not isinstance(observed.cluster, Cluster):
        yield "there is no cluster yet"
        return
    held = observed.cluster.storage
    if not held.is_class:
        yield f"the cluster has no StorageClass {STORAGE_CLASS}"
    elif not held.is_default:
        yield f"{STORAGE_CLASS} is not the default StorageClass"
    for name, folder in export.volumes.items():
        yield from _volume(name, f"{export.source}/{folder}", held.volumes.get(name))
    if held.is_class and held.tested != export.source:
        yield f"no pod has written to {export.source} as user {WRITER}"
