"""The way to a node: straight, or through the site's jump host, which has limits of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.jump import jump_command

if TYPE_CHECKING:
    import paramiko

    from appliance.model.site import Site

MANY = 50
# OpenSSH's MaxStartups is 10:30:100: from ten logins under way on, it drops some of the others.
THROUGH_JUMP_HOST = 8


def logins_at_once(site: Site) -> int:
    """How many logins may be under way at the same time."""
    return THROUGH_JUMP_HOST if site.settings.ssh.jump_host else MANY


def through_jump_host(site: Site, address: str) -> paramiko.ProxyCommand | None:
    """The way to a node of a site with a jump host; None where the way is direct."""
    command = jump_command(site, f"{address}:{site.settings.ssh.port}")
    if not command:
        return None
    import paramiko

    return paramiko.ProxyCommand(command)


def was_dropped(error: BaseException | None) -> bool:
    """Whether a server, or the jump host, ended a login before it said a word of its own."""
    import paramiko

    if isinstance(error, EOFError | ConnectionResetError | BrokenPipeError):
        return True
    is_refusal = isinstance(error, paramiko.AuthenticationException | paramiko.BadHostKeyException)
    return isinstance(error, paramiko.SSHException) and not is_refusal and "banner" in str(error)
