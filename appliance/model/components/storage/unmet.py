"""When is shared storage ready on a node? Judged from facts and the API, like every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.components.base.members import without_cluster
from appliance.model.site.settings import Node
from appliance.model.site.shared_storage import (
    NFS_PORT,
    NO_PROVISIONER,
    PROVISIONER,
    STORAGE_CLASS,
    WRITER,
    Export,
    export_of,
    provisioner_of,
)
from appliance.model.state.cluster.cluster import Cluster, ClusterStorage, Volume
from appliance.model.state.facts.storage_record import client_faults

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Observed

UNITS = {"kernel": "nfs-server", "ganesha": "nfs-ganesha"}


def storage(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The export answers, the class is there, and a claim of it got a volume that pods wrote to."""
    export = export_of(desired.site)
    if export is None:
        return
    facts = observed.node_facts[node.name]
    if node == export.node:
        yield from _server(facts, desired, export)
        yield from _folder(facts, export)
    if not (facts.at("storage.export") or {}).get("reachable"):
        said = (facts.at("storage.export") or {}).get("error")
        yield f"{export.source} is not available: {said or 'not checked'}"
    if node.in_cluster and export.node is not None:
        yield from client_faults(facts, export)
    if node == desired.site.control_plane[0]:
        yield from _volumes(export, desired, observed)


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


def _folder(facts: NodeFacts, export: Export) -> Iterator[str]:
    """The folder on our own server's disk, which the server serves as it is."""
    found = facts.at("storage.local") or {}
    if found.get("exists") and found.get("owner") not in (WRITER, None):
        yield f"user {WRITER} may not write in {export.source}"
        return
    there = found.get("folders") or ()
    absent = [name for name in export.folders if found.get("exists") and name not in there]
    if absent:
        yield f"{export.source} lacks a folder that user {WRITER} may write: {absent[0]}"


def _volume(name: str, place: str, volume: Volume | None) -> Iterator[str]:
    if volume is None:
        yield f"the cluster has no PersistentVolume {name}"
    elif volume.source != place:
        yield f"PersistentVolume {name} is {volume.source}, not {place}"
    elif volume.phase == "Failed":
        yield f"PersistentVolume {name} has failed: {volume.reason or 'no reason given'}"


def _class(export: Export, desired: Desired, held: ClusterStorage) -> Iterator[str]:
    wanted = provisioner_of(desired.manifest.images if desired.manifest else ())
    if not held.is_class:
        yield f"the cluster has no StorageClass {STORAGE_CLASS}"
        return
    if not held.is_default:
        yield f"{STORAGE_CLASS} is not the default StorageClass"
    if wanted != PROVISIONER:
        return
    if held.provisioner == NO_PROVISIONER:
        yield (
            f"StorageClass {STORAGE_CLASS} has no provisioner: new claims wait; the step creates "
            "it again, and existing volumes and claims stay"
        )
    elif held.mount_options != export.mount_options:
        yield (
            f"StorageClass {STORAGE_CLASS} mounts with {','.join(held.mount_options) or 'defaults'}"
            f", not {','.join(export.mount_options) or 'defaults'}"
        )
    if not held.provisioner_ready:
        yield "no pod of the provisioner is ready, so no claim gets a volume"


def _volumes(export: Export, desired: Desired, observed: Observed) -> Iterator[str]:
    if not isinstance(observed.cluster, Cluster):
        yield without_cluster(observed)
        return
    held = observed.cluster.storage
    yield from _class(export, desired, held)
    for name, folder in export.volumes.items():
        yield from _volume(name, f"{export.source}/{folder}", held.volumes.get(name))
    if held.is_class and held.tested != export.source:
        yield f"no pod has written to a volume of {export.source} as user {WRITER}"
