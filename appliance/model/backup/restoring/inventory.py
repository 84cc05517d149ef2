"""The inventory of a restore's plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from appliance.model.site.ssh import connection_vars

if TYPE_CHECKING:
    from appliance.model.backup.restore import RestorePlan
    from appliance.model.site.settings import Site

RESTORE_GROUP: Final = "appliance_restore"
WATCHERS_GROUP: Final = "appliance_restore_watchers"
END_GROUP: Final = "appliance_restore_end"
API_PORT: Final = 6443


def restore_inventory(
    site: Site, plan: RestorePlan, watchers: Sequence[str], *, ends: bool = False
) -> dict[str, Any]:
    """The run's inventory; it needs no API, no bundle and no vault.

    Args:
        site: as its files have it.
        plan: without refusals.
        watchers: nodes on which watchers restart.
        ends: what the restore brought is removed; nothing else is done.
    """
    endpoint, leader = site.settings.control_plane_endpoint, next(iter(plan.members))
    servers = [f"{node.ip}:{API_PORT}" for node in site.control_plane]
    servers += [f"{site.endpoint_address}:{endpoint.port}", _service(site)]
    variables = {
        **connection_vars(site),
        "etcd_restore_name": plan.key,
        "etcd_restore_sha256": plan.sha256,
        "etcd_restore_content": dict(plan.content),
        "etcd_restore_servers": list(dict.fromkeys(servers)),
        "etcd_restore_leader": leader,
        "etcd_restore_survivor": not plan.sha256,
    }
    members = {
        name: {
            "etcd_restore_member": {
                "name": name,
                "peer": url,
                "cluster": plan.cluster,
                "token": plan.key,
            }
        }
        for name, url in plan.members.items()
    }
    names = {*plan.members, *watchers}
    return {
        "all": {
            "vars": variables,
            "hosts": {
                node.name: {"ansible_host": node.ip} for node in site.nodes if node.name in names
            },
            "children": {
                RESTORE_GROUP: {"hosts": {} if ends else members},
                WATCHERS_GROUP: {"hosts": {} if ends else dict.fromkeys(watchers)},
                END_GROUP: {"hosts": dict.fromkeys(plan.members) if ends else {}},
            },
        }
    }


def _service(site: Site) -> str:
    """The address of the API within the cluster: the first one of the services."""
    return f"{site.settings.network.service_cidr.network_address + 1}:443"
