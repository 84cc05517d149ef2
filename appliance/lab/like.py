"""A lab that is like a site: its network, nodes and site from the plan of a rehearsal.

What must not be here: the plan (:mod:`appliance.model.upgrade.rehearsal.likeness`), or hand-made
settings (:mod:`appliance.lab.alike`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from appliance.lab.layout import (
    FIRST_CONTROL_PLANE,
    FIRST_WORKER,
    Lab,
    LabNode,
    require_lab_name,
)
from appliance.lab.site.site import KUBELET, LabExtras, LabSite, lab_site
from appliance.model.upgrade.rehearsal.likeness import Likeness

LONGEST_NAME = 20
_RANGES = ("pod_cidr", "service_cidr")


def like_name(site: str) -> str:
    """The name of the lab of a site, where none is given."""
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in site.lower())
    return f"like-{letters}"[:LONGEST_NAME].strip("-")


def like_lab(name: str, subnet: IPv4Network, like: Likeness) -> Lab:
    """The lab's nodes, with the names that they have on the site; the services node is first.

    Raises:
        ConfigError: the lab's name is invalid.
    """
    require_lab_name(name)
    next_address = {True: FIRST_CONTROL_PLANE, False: FIRST_WORKER}
    nodes = []
    for node in like.nodes:
        nodes.append(
            LabNode(
                node.name,
                subnet.network_address + next_address[node.control_plane],
                node.control_plane,
            )
        )
        next_address[node.control_plane] += 1
    return Lab(name, subnet, tuple(nodes))


def like_extras(like: Likeness, *, runai: str = "") -> LabExtras:
    """What the lab has besides a cluster."""
    return LabExtras(max(like.gpus.values(), default=0), runai=runai)


def like_site(
    lab: Lab, like: Likeness, *, operating_system: str, private_key: Path, extras: LabExtras
) -> LabSite:
    """The site of such a lab: groups and kubelet settings are the site's, the rest is a lab's."""
    made = lab_site(
        lab,
        release=like.release,
        operating_system=operating_system,
        private_key=private_key,
        extras=extras,
    )
    groups: dict[str, tuple[str, ...]] = {}
    for node in like.nodes:
        for group in node.groups:
            groups[group] = (*groups.get(group, ()), node.name)
    if extras.runai and "system_nodes" not in groups and "system_nodes" in made.groups:
        groups["system_nodes"] = made.groups["system_nodes"]
    kubernetes: Mapping[str, Any] = made.settings["kubernetes"]
    ranges = {key: value for key, value in like.carried.items() if key in _RANGES}
    settings = {
        **made.settings,
        "network": {**made.settings["network"], **ranges},
        "registry": like.carried.get("registry", made.settings["registry"]),
        "system_nodes_shared": True,
        "kubernetes": {**kubernetes, "kubelet": {**like.kubelet, **KUBELET}},
    }
    return replace(made, settings=settings, groups=groups)
