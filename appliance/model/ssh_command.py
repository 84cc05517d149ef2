"""The command line by which a person reaches a node, as the site says that nodes are reached."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.site import Node, Site


def ssh_command(site: Site, node: Node, command: str = "") -> str:
    """What to type for a command on a node; without one, for a login.

    Args:
        site: whose user, port, key and jump host are used.
        node: where to.
        command: as the node's shell is to see it, quoted already where it must be.
    """
    settings = site.settings.ssh
    words = ["ssh"]
    if settings.port != 22:
        words += ["-p", str(settings.port)]
    if settings.private_key is not None:
        words += ["-i", shlex.quote(settings.private_key)]
    if settings.jump_host is not None:
        words += ["-J", settings.jump_host]
    words.append(f"{settings.user}@{node.ip}")
    return " ".join([*words, command] if command else words)
