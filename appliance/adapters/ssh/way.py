"""The connection to a node: direct, or through the site's jump host with its own limits."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from appliance.model.site.settings import Site
from appliance.model.site.ssh import CONNECT_SECONDS, jump_command

if TYPE_CHECKING:
    import paramiko

MANY = 50
# OpenSSH's MaxStartups is 10:30:100: with ten logins in progress it drops some of the others.
THROUGH_JUMP_HOST = 8
# Shorter than what we wait for the node's banner: ssh says then that it was the jump host.
JUMP_HOST_SECONDS = CONNECT_SECONDS - 2
_SAID_SECONDS = 1.0
_MOST_SAID = 4000


def logins_at_once(site: Site) -> int:
    """The maximum number of parallel logins."""
    return THROUGH_JUMP_HOST if site.settings.ssh.jump_host else MANY


def through_jump_host(site: Site, address: str) -> paramiko.ProxyCommand | None:
    """The connection to a node through the jump host; None without a jump host."""
    target = f"{address}:{site.settings.ssh.port}"
    command = jump_command(site, target, seconds=JUMP_HOST_SECONDS)
    if not command:
        return None
    import paramiko

    return paramiko.ProxyCommand(command)


def said_by(proxy: paramiko.ProxyCommand) -> str:
    """What the ``ssh`` of the jump host said on stderr; it is ended."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        proxy.process.terminate()
        _, said = proxy.process.communicate(timeout=_SAID_SECONDS)
        return str(said[-_MOST_SAID:].decode(errors="replace"))
    return ""


def was_dropped(error: BaseException | None) -> bool:
    """Whether the server or the jump host closed a login before sending its banner."""
    import paramiko

    if isinstance(error, EOFError | ConnectionResetError | BrokenPipeError):
        return True
    is_refusal = isinstance(error, paramiko.AuthenticationException | paramiko.BadHostKeyException)
    return isinstance(error, paramiko.SSHException) and not is_refusal and "banner" in str(error)
