"""The inventory of a clean-up's plays: which hosts remove what; it needs no bundle, no vault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from appliance.model.site.ssh import connection_vars
from appliance.model.state.desired import Desired
from appliance.model.upkeep.care.items import Area, Item
from appliance.model.upkeep.care.supply import Verdict

GROUPS: Final[dict[Area, str]] = {
    "registry": "appliance_cleanup_registry",
    "mirror": "appliance_cleanup_mirror",
    "images": "appliance_cleanup_images",
}


def cleanup_inventory(
    desired: Desired,
    area: Area,
    verdict: Verdict,
    due: Sequence[Item],
    removed_digest: str = "",
) -> dict[str, Any]:
    """The run's inventory for one area.

    Args:
        desired: whose site.
        area: whose group has hosts.
        verdict: what goes, and what stays.
        due: what goes, by host.
        removed_digest: of the bundle that goes.
    """
    site = desired.site
    names = sorted({one.node for one in due})
    hosts = {name: {"ansible_host": site.node(name).ip} for name in names}
    variables = {
        **connection_vars(site),
        "container_registry_name": site.registry_name,
        "container_registry_port": site.registry_port,
        "container_registry_removed_images": dict(verdict.images),
        "container_registry_kept_digests": sorted(verdict.kept),
        "artifact_server_removed_digest": removed_digest,
        "kubernetes_node_runtime": desired.release.runtime.name,
        "kubernetes_node_registry": site.image_prefix,
        "kubernetes_node_removed_images": dict(verdict.images),
    }
    groups = {
        group: {"hosts": dict.fromkeys(names) if of == area else {}} for of, group in GROUPS.items()
    }
    return {"all": {"vars": variables, "hosts": hosts, "children": groups}}
