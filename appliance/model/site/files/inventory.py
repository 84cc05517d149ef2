"""How plain Ansible reaches a site's nodes: what ``appliance site inventory`` prints.

What must not be here: role variables, and secrets (a reference to the vault is one line of text).
"""

from __future__ import annotations

from typing import Any

from appliance.model.site.groups import GROUPS
from appliance.model.site.settings import Site
from appliance.model.site.ssh import connection_vars
from appliance.model.site.vault_ref import VaultRef


def site_inventory(site: Site) -> dict[str, Any]:
    """The nodes with address, user, port, key, jump host and known_hosts, and their groups.

    The result is in the form of Ansible's YAML inventory, as plain data: the values of a site
    without a fault contain no Jinja.
    """
    connection = {
        name: value.template if isinstance(value, VaultRef) else value
        for name, value in connection_vars(site).items()
    }
    return {
        "all": {
            "vars": connection,
            "hosts": {node.name: {"ansible_host": node.ip} for node in site.nodes},
            "children": {
                group: {"hosts": {node.name: {} for node in site.in_group(group)}}
                for group in GROUPS
            },
        }
    }
