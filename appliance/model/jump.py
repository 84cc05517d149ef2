"""The way through a jump host: one command for the probe, for the plays and for host keys.

``ProxyJump`` would not do: OpenSSH does not hand our ``-o`` options on to the jump host, so it
would be known by the user's own ``known_hosts`` and entered with the user's own key.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.model.site import Site

# What a user's own ssh_config may not decide: that a node is handed the agent, the display or a
# port of this machine, that a command runs here, or that another file vouches for a host key.
# The first value that ssh meets holds, so these stand in the command line. See decision page 5.
NOTHING_FORWARDED: Final = (
    *("-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "Tunnel=no"),
    *("-o", "PermitLocalCommand=no"),
    *("-o", "GlobalKnownHostsFile=/dev/null", "-o", "VerifyHostKeyDNS=no"),
)


def jump_address(site: Site) -> tuple[str, int] | None:
    """(host, port) of the jump host, or None without one."""
    _, host, port = _parts(site)
    return (host, int(port or 22)) if host else None


def jump_command(site: Site, target: str = "%h:%p") -> str:
    """A ``ProxyCommand`` that goes through the jump host, strict about its key; empty without one.

    Args:
        site: whose ``ssh`` block, ``known_hosts`` and key are used.
        target: HOST:PORT behind the jump host; ``%h:%p`` is for ssh to fill in.
    """
    login, host, port = _parts(site)
    if not host:
        return ""
    private_key = site.settings.ssh.private_key
    key = ["-i", str(Path(private_key).expanduser())] if private_key else []
    # Where the site writes no port, that of the user's own ssh_config holds.
    number = ["-p", port] if port else []
    return shlex.join([
        *("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
        *("-o", f"UserKnownHostsFile={site.known_hosts}", "-o", "StrictHostKeyChecking=yes"),
        # -W clears all forwardings but its own; a shared connection was judged by other rules.
        *NOTHING_FORWARDED, "-o", "ControlPath=none",
        *key, *number, "-W", target, f"{login}{host}",
    ])  # fmt: skip


def _parts(site: Site) -> tuple[str, str, str]:
    """``USER@``, host and port as the site writes them; what it leaves out is empty."""
    user, at, rest = (site.settings.ssh.jump_host or "").rpartition("@")
    host, _, port = rest.partition(":")
    return f"{user}{at}", host, port
