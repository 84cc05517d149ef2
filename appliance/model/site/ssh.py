"""The ssh command line for a node, with the site's user, port, key and jump host."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from appliance.model.site.settings import Node, Site
from appliance.model.site.vault_ref import BECOME_PASSWORD, Vars

# What a look waits for a node's SSH server, in seconds.
CONNECT_SECONDS: Final = 8
# What a shell may take from the login to its first words, which each command of ours begins with: a
# node that lets in and says nothing costs this, and not what the command itself may take.
FIRST_OUTPUT_SECONDS: Final = 15
# What a play and a jump host may take: playbooks/ansible.cfg says the same.
PLAY_CONNECT_SECONDS: Final = 15
# What a user's own ssh_config may not decide: that a node is handed the agent, the display or a
# port of this machine, that a command runs here, or that another file vouches for a host key.
# The first value that ssh meets holds, so these stand in the command line. See decision page 5.
NOTHING_FORWARDED: Final = (
    *("-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "Tunnel=no"),
    *("-o", "PermitLocalCommand=no"),
    *("-o", "GlobalKnownHostsFile=/dev/null", "-o", "VerifyHostKeyDNS=no"),
)


def ssh_command(site: Site, node: Node, command: str = "", *, verbose: bool = False) -> str:
    """What to type for a command on a node; without one, for a login.

    Args:
        site: whose user, port, key and jump host are used.
        node: where to.
        command: as the node's shell is to see it, quoted already where it must be.
        verbose: let ``ssh`` say what it does.
    """
    settings = site.settings.ssh
    words = ["ssh", "-v"] if verbose else ["ssh"]
    if settings.port != 22:
        words += ["-p", str(settings.port)]
    if settings.private_key is not None:
        words += ["-i", _file(settings.private_key)]
    if settings.jump_host is not None:
        words += ["-J", settings.jump_host]
    words.append(f"{settings.user}@{node.ip}")
    return " ".join([*words, command] if command else words)


def login_words(
    site: Site,
    node: Node,
    command: str = "",
    *,
    terminal: bool = False,
    forward: str | None = None,
) -> list[str]:
    """The whole ``ssh`` command line, as strict as the plays' own; nothing is quoted.

    Args:
        site: whose user, port, key, known hosts and jump host are used.
        node: where to.
        command: for the node's shell; empty for a login.
        terminal: whether the command gets a terminal; a login has one.
        forward: PORT:HOST:HOSTPORT to forward from this machine, with no command.
    """
    settings = site.settings.ssh
    words = ["ssh", "-p", str(settings.port)]
    if settings.private_key is not None:
        words += ["-i", str(Path(settings.private_key).expanduser())]
    words += ["-o", f"UserKnownHostsFile={site.known_hosts}", "-o", "StrictHostKeyChecking=yes"]
    words += [*NOTHING_FORWARDED, "-o", "ControlPath=none"]
    if proxy := jump_command(site):
        words += ["-o", f"ProxyCommand={proxy}"]
    if forward is not None:
        words += ["-N", "-o", "ExitOnForwardFailure=yes", "-L", forward]
    else:
        words += ["-o", "ClearAllForwardings=yes"]
    words += ["-t"] if terminal else []
    login = f"{settings.user}@{node.ip}"
    # ssh looks for options behind the host as well: a command may begin with a dash.
    return [*words, "--", login, command] if command else [*words, login]


def copy_key_command(site: Site, node: Node) -> str:
    """What to type to install the site's public key on a node; ``ssh`` asks for the password."""
    settings = site.settings.ssh
    words: list[str] = []
    if settings.private_key is not None:
        key = settings.private_key.removesuffix("-cert.pub").removesuffix(".pub")
        words += ["-i", _file(f"{key}.pub")]
    if settings.port != 22:
        words += ["-p", str(settings.port)]
    if settings.jump_host is not None:
        words += ["-o", shlex.quote(f"ProxyJump={settings.jump_host}")]
    options = "".join(f" {word}" for word in words)
    return f"ssh-copy-id{options} {settings.user}@{node.ip}"


def jump_login_command(site: Site) -> str:
    """What to type to log in to the jump host alone; empty without one."""
    login, host, port = _parts(site)
    if not host:
        return ""
    key = site.settings.ssh.private_key
    words = ["ssh", *(["-p", port] if port else []), *(["-i", _file(key)] if key else [])]
    return " ".join([*words, shlex.quote(f"{login}{host}"), "true"])


def _file(path: str) -> str:
    """A path for a shell, which expands the tilde only where it is not quoted."""
    home = "~/" if path.startswith("~/") else ""
    return home + shlex.quote(path.removeprefix(home))


def connection_vars(site: Site) -> Vars:
    """How Ansible reaches the nodes, as the probe does."""
    connection = site.settings.ssh
    words = ["-o", f"UserKnownHostsFile={site.known_hosts}", "-o", "StrictHostKeyChecking=yes"]
    words += [*NOTHING_FORWARDED, "-o", "ClearAllForwardings=yes"]
    if proxy := jump_command(site):
        words += ["-o", f"ProxyCommand={proxy}"]
    found: Vars = {
        "ansible_user": connection.user,
        "ansible_port": connection.port,
        "ansible_ssh_common_args": shlex.join(words),
        "ansible_become": connection.become,
        "ansible_python_interpreter": connection.python,
    }
    if connection.become and connection.become_password:
        found["ansible_become_password"] = BECOME_PASSWORD
    if connection.private_key:
        found["ansible_ssh_private_key_file"] = connection.private_key
    return found


def jump_address(site: Site) -> tuple[str, int] | None:
    """(host, port) of the jump host, or None without one."""
    _, host, port = _parts(site)
    return (host, int(port or 22)) if host else None


def jump_command(site: Site, target: str = "%h:%p", *, seconds: int = PLAY_CONNECT_SECONDS) -> str:
    """A ``ProxyCommand`` that goes through the jump host, strict about its key; empty without one.

    Args:
        site: whose ``ssh`` block, ``known_hosts`` and key are used.
        target: HOST:PORT behind the jump host; ``%h:%p`` is for ssh to fill in.
        seconds: what the jump host may take to answer.
    """
    login, host, port = _parts(site)
    if not host:
        return ""
    private_key = site.settings.ssh.private_key
    key = ["-i", str(Path(private_key).expanduser())] if private_key else []
    # Where the site writes no port, that of the user's own ssh_config holds.
    number = ["-p", port] if port else []
    return shlex.join([
        *("ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={seconds}"),
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
