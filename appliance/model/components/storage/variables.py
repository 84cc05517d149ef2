"""The variables of the roles that set up shared storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.site.shared_storage import (
    GB,
    PROVISIONER,
    PROVISIONER_IMAGE,
    PROVISIONER_NAMESPACE,
    STORAGE_CLASS,
    TEST_FOLDER,
    WRITER,
    export_of,
)
from appliance.model.site.vault_ref import Vars
from appliance.model.state.facts.storage_record import is_in_use

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.state.desired import Desired


def variables(run: PlannedRun) -> Vars:
    """What every host is told; nothing when the site has no shared storage."""
    manifest, site = run.manifest, run.desired.site
    export = export_of(site)
    if export is None:
        return {}
    server = {name: manifest.packages[name] for name in _roots(manifest, "storage_server")}
    return {
        "nfs_server_path": export.path,
        "nfs_server_clients": [str(network) for network in site.lan_cidrs],
        "nfs_server_kernel_packages": {n: v for n, v in server.items() if "kernel" in n},
        "nfs_server_ganesha_packages": {n: v for n, v in server.items() if "ganesha" in n},
        "nfs_client_packages": {n: manifest.packages[n] for n in _roots(manifest, "storage")},
        "nfs_client_server": export.server,
        "nfs_client_path": export.path,
        "nfs_client_folders": list(export.folders),
        "nfs_client_options": list(export.mount_options),
        "nfs_client_minimum_free_bytes": (
            0 if is_in_use(run.observed, export) else export.settings.minimum_free_gb * GB
        ),
        "nfs_client_root_squash_allowed": export.node is None,
        "nfs_volumes_server": export.server,
        "nfs_volumes_path": export.path,
        "nfs_volumes_class": STORAGE_CLASS,
        "nfs_volumes_volumes": [{"name": n, "folder": f} for n, f in export.volumes.items()],
        "nfs_volumes_capacity_gib": export.settings.volume_gib,
        "nfs_volumes_test_folder": TEST_FOLDER,
        "nfs_volumes_test_image": _image(run, "busybox"),
        "nfs_volumes_options": list(export.mount_options),
        "nfs_volumes_provisioner": PROVISIONER,
        "nfs_volumes_provisioner_image": _image(run, PROVISIONER_IMAGE),
        "nfs_volumes_provisioner_namespace": PROVISIONER_NAMESPACE,
        "nfs_volumes_provisioner_user": WRITER,
        "nfs_volumes_provisioner_nodes": [
            node.name for node in site.system_nodes or site.control_plane
        ],
    }


def _image(run: PlannedRun, name: str) -> str:
    """An image of the bundle by digest, as the nodes pull it; empty where the bundle has none."""
    images = run.manifest.images
    tagged = next((image for image in images if image.startswith(f"{name}:")), None)
    return f"{run.desired.site.image_prefix}/{name}@{images[tagged]}" if tagged else ""


def groups(desired: Desired) -> dict[str, Vars]:
    """The group that holds the node that serves, if one does."""
    export = export_of(desired.site)
    hosts = {export.node.name: None} if export and export.node else {}
    return {"appliance_nfs_server": {"hosts": hosts}}


def _roots(manifest: BundleManifest, group: str) -> tuple[str, ...]:
    return tuple(manifest.package_roots.get(group, ()))


def probe_arguments(desired: Desired) -> tuple[str, ...]:
    """The export that every node is to look at."""
    export = export_of(desired.site)
    if export is None:
        return ()
    ports = ",".join(str(port) for port in export.ports)
    folders = ",".join(export.folders)
    return ("--nfs", export.source, "--nfs-folders", folders, "--nfs-ports", ports)
