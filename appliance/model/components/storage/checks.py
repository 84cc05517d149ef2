"""Is the shared storage usable, as far as that shows without a mount, before the first change?"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING, Any

from appliance.model.components.base.subject import Subject
from appliance.model.site.shared_storage import FOLDER_MARK, GB, WRITER, Export, export_of
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.facts.storage_record import is_in_use, record_of
from appliance.model.state.findings import Finding

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed

NEARLY_FULL_PERCENT = 10


def nfs_server(subject: Subject) -> Iterator[Finding]:
    """The site's own NFS server answers."""
    export, seen = _brought(subject), _seen(subject)
    if export is not None and seen and not seen.get("reachable"):
        ports = " and ".join(str(port) for port in export.ports)
        yield subject.error(
            "nfs_server",
            f"no NFS server at {export.server} ({seen.get('error') or 'no answer'})",
            f"a server that accepts connections at TCP {ports}",
            f"correct nfs.server in site.yml, or open TCP {ports} to {subject.node.ip}",
        )


def nfs_space(subject: Subject) -> Iterator[Finding]:
    """There is room for Run:ai's volumes before the first use; later they may fill the disk.

    The space of another organisation's server shows in a mount alone, so step ``storage_client``
    asks for it.
    """
    export = export_of(subject.site)
    if export is None or subject.node != export.node:
        return
    seen = subject.facts.at("storage.local")
    free, total = (seen or {}).get("free_bytes"), (seen or {}).get("size_bytes")
    if free is None:
        return
    wanted = export.settings.minimum_free_gb
    where = f"{export.path} ({seen['mount']})" if seen and "mount" in seen else export.source
    if not is_in_use(subject.observed, export):
        if free < wanted * GB:
            yield subject.error(
                "nfs_space",
                f"{free / GB:.0f} GB free for {where}",
                f"at least {wanted} GB (nfs.minimum_free_gb)",
                "use a larger disk, or set nfs.path to another folder",
            )
    elif total and 100 * free / total < NEARLY_FULL_PERCENT:
        yield subject.warning(
            "nfs_space",
            f"{free / GB:.0f} GB free for {where}",
            f"more than {NEARLY_FULL_PERCENT} %, because a full disk stops the databases",
            f"see what fills it: du -xhd2 {export.path}",
        )


def nfs_file_system(subject: Subject) -> Iterator[Finding]:
    """The folder that the site's NFS node will serve is on a disk that can be exported."""
    export = export_of(subject.site)
    if export is None or subject.node != export.node:
        return
    kind = str((subject.facts.at("storage.local") or {}).get("fstype") or "")
    if kind.startswith(("nfs", "fuse", "overlay", "tmpfs")):
        yield subject.error(
            "nfs_file_system",
            f"{export.path} on {kind}",
            "a file system of a disk of this node, which an NFS server can export",
            "set nfs.path in site.yml to a folder on a disk",
        )


def nfs_folder(subject: Subject) -> Iterator[Finding]:
    """The folder that the site's NFS node will serve is empty, or the appliance created it.

    After the first export it must be the same folder: an empty one shows that its disk is missing.
    """
    export = export_of(subject.site)
    if export is None or subject.node != export.node:
        return
    found = subject.facts.at("storage.local") or {}
    others = found.get("empty") is False and found.get("owner") not in (WRITER, None)
    if others and not found.get("made_by_us"):
        yield subject.error(
            "nfs_folder",
            f"{export.path} of user {found['owner']}, not empty and not created by the appliance",
            f"an absent or empty folder, or one of user {WRITER}",
            "set nfs.path in site.yml to a dedicated folder, or change the owner of this one: "
            + subject.ssh(f"sudo chown {WRITER}:{WRITER} {export.path}"),
        )
    elif _is_lost(found, used=_holds_volumes(subject, export)):
        state = (
            "absent"
            if not found["exists"]
            else "empty"
            if found.get("empty")
            else "not the folder that was exported before"
        )
        given = f"sudo install -d -o {WRITER} -g {WRITER} {export.path}; sudo rm -f {FOLDER_MARK}"
        yield subject.error(
            "nfs_folder",
            f"{export.path} is {state}",
            "the folder with the site's data, on its disk",
            "mount its disk and run the same command again; see which disks are mounted: "
            f"{subject.ssh('lsblk -f')}; only if its data may be lost, or were copied to this "
            f"folder: {subject.ssh(quote(given))}",
        )


def _is_lost(found: dict[str, Any], *, used: bool) -> bool:
    """Whether the folder differs from the one that was exported; False for unknown facts.

    Args:
        found: the folder, as the probe saw it.
        used: the cluster holds volumes of it, which lie in folders of ours.
    """
    if found.get("exists") is None:
        return False
    if found.get("marked") and not found.get("made_by_us"):
        return True
    bare = found["exists"] is False or found.get("empty") is True
    # Without a mark, a folder of the databases' user was set up by hand: new disk or new system.
    given = found.get("owner") == WRITER and not found.get("marked")
    return used and bare and not given


def nfs_client(subject: Subject) -> Iterator[Finding]:
    """The kernel of a member can mount NFS."""
    if export_of(subject.site) is None or not subject.node.in_cluster:
        return
    asked = subject.facts.at("storage.export") is not None
    if asked and not subject.facts.at("storage.client"):
        yield subject.error(
            "nfs_client",
            "a kernel without an NFS client",
            "a kernel with nfs, built in or as a module",
            "see what is missing: " + subject.ssh("sudo modprobe nfsv4"),
        )


def nfs_fsync(subject: Subject) -> Iterator[Finding]:
    """An fsync is fast: every commit of a database waits for one."""
    export, test = _tested(subject)
    limit = export.settings.fsync_warning_ms if export else 0
    if export and test.get("fsync_ms", 0) > limit:
        yield subject.warning(
            "nfs_fsync",
            f"{test['fsync_ms']:.0f} ms for an fsync to {export.source}",
            f"at most {limit} ms (nfs.fsync_warning_ms): every commit of a database waits for one",
            f"check the disks of {export.server} and the network to it",
        )


def nfs_root_squash(subject: Subject) -> Iterator[Finding]:
    """Root is not squashed: some pods change the owner of their folder as root."""
    export, test = _tested(subject)
    if export and test.get("root_squashed"):
        yield subject.warning(
            "nfs_root_squash",
            f"root squashed to another user on {export.source}",
            "no_root_squash, for pods that change the owner of their folder as root",
            f"chown each folder to user {WRITER} by hand, as the appliance does for its own",
        )


def measured(desired: Desired, observed: Observed) -> Iterator[Finding]:
    """Check what only writing shows, so after step ``storage`` has run."""
    for node in desired.site.cluster_members:
        facts = observed.node_facts.get(node.name)
        if facts is not None:
            subject = Subject(node, facts, desired, observed)
            yield from nfs_fsync(subject)
            yield from nfs_root_squash(subject)


def _tested(subject: Subject) -> tuple[Export | None, dict[str, Any]]:
    """Return the export and its measurements from this node, if there are any."""
    export = export_of(subject.site)
    test = record_of(subject.facts, export) if export else {}
    return (export, test) if test else (None, {})


def _brought(subject: Subject) -> Export | None:
    """Return the export, when the site brings its server and this node needs it."""
    export = export_of(subject.site)
    return export if export and export.node is None and subject.node.in_cluster else None


def _seen(subject: Subject) -> dict[str, Any]:
    return subject.facts.at("storage.export") or {}


def _holds_volumes(subject: Subject, export: Export) -> bool:
    cluster = subject.observed.cluster
    return is_in_use(subject.observed, export) or (
        isinstance(cluster, Cluster)
        and any(v.source.startswith(f"{export.source}/") for v in cluster.storage.volumes.values())
    )


CHECKS = (
    nfs_server,
    nfs_space,
    nfs_file_system,
    nfs_folder,
    nfs_client,
    nfs_fsync,
    nfs_root_squash,
)
