"""The way through a jump host: one command for the probe, for the plays and for host keys.

``ProxyJump`` would not do: OpenSSH does not hand our ``-o`` options on to the jump host, so it
would be known by the user's own ``known_hosts`` and entered with the user's own key.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.site import Site


def jump_address(site: Site) -> tuple[str, int] | None:
    """(host, port) of the jump host, or None without one."""
    if not site.settings.ssh.jump_host:
        return None
    host, _, port = site.settings.ssh.jump_host.rpartition("@")[2].partition(":")
    return host, int(port or 22)


def jump_command(site: Site, target: str = "%h:%p") -> str:
    """A ``ProxyCommand`` that goes through the jump host, strict about its key; empty without one.

    Args:
        site: whose ``ssh`` block, ``known_hosts`` and key are used.
        target: HOST:PORT behind the jump host; ``%h:%p`` is for ssh to fill in.
    """
    address, connection = jump_address(site), site.settings.ssh
    if address is None:
        return ""
    user, at, rest = (connection.jump_host or "").rpartition("@")
    # Where the site writes no port, that of the user's own ssh_config holds.
    port = ["-p", str(address[1])] if ":" in rest else []
    key = ["-i", str(Path(connection.private_key).expanduser())] if connection.private_key else []
    return shlex.join([
        *("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
        *("-o", f"UserKnownHostsFile={site.known_hosts}", "-o", "StrictHostKeyChecking=yes"),
        *key, *port, "-W", target, f"{user}{at}{address[0]}",
    ])  # fmt: skip
