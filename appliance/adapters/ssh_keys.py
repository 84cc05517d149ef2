"""What this machine brings to a login: the site's private key, or the agent that stands in for it.

A fault here is one of this machine: it tells nothing of a node, neither that it lives nor that it
is dead. So it ends the command, and is never a node's fault.
"""

from __future__ import annotations

import errno
import shlex
from pathlib import Path

from appliance.adapters.known_hosts import who_may_read
from appliance.errors import ConfigError

# Where paramiko looks by itself when neither the site nor the agent has a key.
_DEFAULTS = ("id_rsa", "id_ecdsa", "id_ed25519")
_CERTIFICATE = "-cert.pub"


def check_private_key(key: str | None) -> None:
    """See that there is something to log in with, as paramiko will look for it; asks no node.

    Args:
        key: ``ssh.private_key`` of the site.

    Raises:
        ConfigError: the key cannot be read or used, or there is none.
    """
    if key is None:
        if not _agent_has_keys() and not _has_default_key():
            raise ConfigError(
                "site.yml names no ssh.private_key, no SSH agent holds a key, and ~/.ssh has "
                "none without a passphrase",
                hint="ssh-add FILE, or set ssh.private_key in site.yml",
            )
        return
    path = Path(key.removesuffix(_CERTIFICATE)).expanduser()
    try:
        fault = _fault(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    # Of a key that cannot be opened, or a public one, the agent may hold the private half.
    if fault and not _agent_has_keys():
        raise ConfigError(f"the SSH key {path} {fault[0]}", hint=fault[1])


def local_fault(error: Exception) -> ConfigError | None:
    """The fault of this machine that ended a connection, or None where the network or a node did.

    The kernel names a file only where a file is at fault.
    """
    if not isinstance(error, OSError):
        return None
    if error.filename is not None:
        return ConfigError(
            f"SSH cannot start on this machine: {error.filename}: {error.strerror}",
            hint="mend it here: no node was asked",
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return ConfigError(
            f"SSH cannot start on this machine: {error.strerror}", hint="ulimit -n 4096"
        )
    return None


def _unreadable(path: Path, error: Exception) -> ConfigError:
    reason = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
    hint = "correct ssh.private_key in site.yml, or put the key there"
    if isinstance(error, PermissionError):
        hint = who_may_read(path)
    return ConfigError(f"the SSH key {path} cannot be read: {reason}", hint=hint)


def _fault(path: Path) -> tuple[str, str] | None:
    """What keeps a key file from being used, and what to do; None where paramiko takes it."""
    import paramiko

    found = (
        "is no private key in OpenSSH's or PEM format",
        "correct ssh.private_key in site.yml: it names the private half, without .pub",
    )
    for kind in (paramiko.RSAKey, paramiko.ECDSAKey, paramiko.Ed25519Key):
        try:
            kind.from_private_key_file(str(path))
        except paramiko.PasswordRequiredException:
            found = (
                "has a passphrase, and no SSH agent holds a key",
                f"ssh-add {shlex.quote(str(path))} (without an agent, first: eval $(ssh-agent))",
            )
        except paramiko.SSHException:
            continue
        else:
            return None
    return found


def _has_default_key() -> bool:
    for path in (Path.home() / ".ssh" / name for name in _DEFAULTS):
        try:
            if path.is_file() and _fault(path) is None:
                return True
        except (OSError, ValueError):
            continue
    return False


def _agent_has_keys() -> bool:
    import paramiko

    try:
        agent = paramiko.Agent()
    except (OSError, paramiko.SSHException):
        return False
    try:
        return bool(agent.get_keys())
    finally:
        agent.close()
