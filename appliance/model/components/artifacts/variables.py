"""The variables of the roles that step ``artifacts`` imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.vault_ref import CA_CERTIFICATE, Vars

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.site.settings import Node


def variables(run: PlannedRun) -> Vars:
    """The bundle server, its clients, and the servers of time."""
    desired, manifest, site = run.desired, run.manifest, run.desired.site
    found: Vars = {
        "artifact_server_bundle_digest": desired.bundle_digest,
        "artifact_server_signature": desired.signature.text if desired.signature else "",
        "artifact_server_index_digest": manifest.package_index_sha256,
        # With those of the registry: every run of apt costs seconds.
        "artifact_server_packages": manifest.packages_of("artifacts", "registry"),
        "artifact_server_name": site.artifacts_name,
        "artifact_server_port": site.artifacts_port,
        "artifact_server_addresses": [site.services_node.ip],
        "artifact_client_url": f"https://{site.settings.artifacts}",
        "artifact_client_ca_certificate": CA_CERTIFICATE,
        "artifact_client_bundle_digest": desired.bundle_digest,
        "artifact_client_index_digest": manifest.package_index_sha256,
        "time_sync_packages": manifest.packages_of("time"),
        "time_sync_allowed_networks": [str(network) for network in site.lan_cidrs],
        "time_sync_may_set_clock": site.settings.time.may_set_clock,
    }
    if run.bundle_directory:
        found["artifact_server_bundle_dir"] = run.bundle_directory
    return found


def node_variables(run: PlannedRun, node: Node) -> Vars:
    """Where the node gets its time: the site's servers, else the control-plane nodes."""
    site = run.desired.site
    control_plane = [member.ip for member in site.control_plane]
    outside = list(site.settings.ntp_servers)
    orphan = not outside and CONTROL_PLANE in node.groups
    return {
        "time_sync_servers": outside or ([] if orphan else control_plane),
        "time_sync_orphan_enabled": orphan,
        "time_sync_peers": [ip for ip in control_plane if ip != node.ip] if orphan else [],
    }
