"""The site's shared storage as nodes reach it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from appliance.model.site.settings import Nfs, Node, Site

STORAGE_CLASS = "appliance-nfs"
# Who makes a folder for each claim, as the class names it; none with a bundle that lacks its image.
PROVISIONER = "appliance.dev/nfs"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
PROVISIONER_NAMESPACE = "appliance-storage"
PROVISIONER_IMAGE = "nfs-subdir-external-provisioner"
TESTED_ANNOTATION = "appliance.dev/storage-proven"
# The user of Run:ai's databases, who must be able to write.
WRITER = 1001
# Where the role nfs_server writes down which folder it exports.
FOLDER_MARK = "/var/lib/appliance/nfs-export.json"
TEST_FOLDER = "appliance-proof"
VOLUME_FOLDER = "appliance-volume-{:02}"
GB = 1000**3
NFS_PORT = 2049
RPCBIND_PORT = 111


@dataclass(frozen=True)
class Export:
    """An NFS export as nodes reach it.

    Attributes:
        server: an address, or a name that the site's DNS knows.
        node: the node of the site that serves it; None when the site brings its own NFS.
    """

    server: str
    path: str
    settings: Nfs
    node: Node | None = None

    @property
    def source(self) -> str:
        """As mount(8) takes it."""
        return f"{self.server}:{self.path}"

    @property
    def mount_options(self) -> tuple[str, ...]:
        """What nodes mount it with, beside mount.nfs's defaults, in the words of nfs(5)."""
        if self.settings.version == "negotiated":
            return ()
        version = f"nfsvers={self.settings.version.removeprefix('v')}"
        return (version, "nolock") if self.settings.locks == "node" else (version,)

    @property
    def ports(self) -> tuple[int, ...]:
        """The TCP ports that every member must reach: version 3 finds its services by rpcbind."""
        return (NFS_PORT, RPCBIND_PORT) if self.settings.version == "v3" else (NFS_PORT,)

    @property
    def volumes(self) -> dict[str, str]:
        """Name of each PersistentVolume -> its folder in the export."""
        folders = (VOLUME_FOLDER.format(n) for n in range(1, self.settings.volumes + 1))
        return {folder: folder for folder in folders}

    @property
    def folders(self) -> tuple[str, ...]:
        """Every folder that must be in the export."""
        return (TEST_FOLDER, *self.volumes.values())


def provisioner_of(images: Collection[str]) -> str:
    """Who makes volumes for the class, by the images (name:tag) that the bundle brings."""
    brought = any(name.startswith(f"{PROVISIONER_IMAGE}:") for name in images)
    return PROVISIONER if brought else NO_PROVISIONER


def export_of(site: Site) -> Export | None:
    """The site's export, or None when it has no shared storage."""
    nfs = site.settings.nfs
    if nfs is None:
        return None
    domain = site.settings.domain
    for node in site.nodes:
        if nfs.server in (node.name, f"{node.name}.{domain}", node.ip):
            # By address: the kubelet mounts it before anything else is known to work.
            return Export(node.ip, nfs.path, nfs, node)
    return Export(nfs.server, nfs.path, nfs)


def members_of_filer(site: Site) -> tuple[Node, ...]:
    """Every node that mounts an NFS server which the site brings; none for a server of ours."""
    export = export_of(site)
    return site.cluster_members if export is not None and export.node is None else ()


def users_of(site: Site) -> tuple[Node, ...]:
    """Every node that mounts the export or serves it."""
    export = export_of(site)
    if export is None:
        return ()
    return tuple(n for n in site.nodes if n.in_cluster or n == export.node)
