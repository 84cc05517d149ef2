"""Whether a site is a lab of this machine, like another site, with no way out.

Only there may the backup of that other site be opened. What must not be here: how a network is
made (role ``lab_node``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import Refused

if TYPE_CHECKING:
    from appliance.lab.ports import LabContainers, LabHost
    from appliance.model.site.settings import Site


def require_closed(site: Site, like: str, host: LabHost, containers: LabContainers) -> None:
    """Refuse unless every node of the site is a running container of a closed lab here.

    Args:
        site: the site of the lab.
        like: the name of the site that it is like.
        host: this machine.
        containers: podman.

    Raises:
        Refused: nothing was changed.
    """
    again = f"appliance lab down --name {site.name}, then appliance lab up --like SITE --bare"
    if not host.is_root():
        raise Refused(
            f"{site.name} is a lab like {like}, and only root can see whether it has a way out",
            hint="run the same command with sudo",
        )
    if not host.programs(("podman",)):
        raise Refused(f"{site.name} is no lab of this machine: it has no podman", hint=again)
    running = {node.name: node for node in containers.nodes(site.name)}
    for node in site.nodes:
        found = running.get(node.name)
        if found is None or found.state != "running" or found.address != node.ip:
            raise Refused(
                f"{node.name} at {node.ip} is no running node of the lab {site.name} on this "
                f"machine, and a backup of {like} is opened in such a lab only",
                hint=again,
            )
    if site.name not in containers.closed():
        raise Refused(
            f"the network of the lab {site.name} has a way out: what runs in {like} would reach "
            "others",
            hint=again,
        )
