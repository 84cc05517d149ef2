"""This machine's credentials for a login: the site's private key, or the SSH agent.

A fault here is a fault of this machine: it shows nothing about a node. It ends the command, and is
never reported as a node's fault.
"""

from __future__ import annotations

import errno
import shlex
from pathlib import Path

from appliance.adapters.ssh.trust.known_hosts import who_may_read
from appliance.errors import ConfigError

# The files that paramiko tries if neither the site nor the agent has a key.
_DEFAULTS = ("id_rsa", "id_ecdsa", "id_ed25519")
_CERTIFICATE = "-cert.pub"


def check_private_key(key: str | None) -> None:
    """Check that there is a usable key, in the way paramiko looks for it; contacts no node.

    Args:
        key: ``ssh.private_key`` of the site.

    Raises:
        ConfigError: the key cannot be read or used, or there is none.
    """
    if key is None:
        if not _agent_has_keys() and not _has_default_key():
            raise ConfigError(
                "no SSH key: site.yml has no ssh.private_key, no SSH agent holds a key, and ~/.ssh "
                "has no key without a passphrase",
                hint="ssh-add FILE, or set ssh.private_key in site.yml",
            )
        return
    path = Path(key.removesuffix(_CERTIFICATE)).expanduser()
    try:
        fault = _fault(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    # For a key that cannot be opened, or a public key, the agent may hold the private key.
    if fault and not _agent_has_keys():
        raise ConfigError(f"the SSH key {path} {fault[0]}", hint=fault[1])


def local_fault(error: Exception) -> ConfigError | None:
    """The fault of this machine that ended a connection; None for faults of network or node.

    The kernel names a file only if the file is the cause.
    """
    if not isinstance(error, OSError):
        return None
    if error.filename is not None:
        return ConfigError(
            f"SSH cannot start on this machine: {error.filename}: {error.strerror}",
            hint="fix it on this machine: no node was contacted",
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return ConfigError(
            f"SSH cannot start on this machine: {error.strerror}", hint="ulimit -n 4096"
        )
    return None


def _unreadable(path: Path, error: Exception) -> ConfigError:
    reason = (error.strerror if isinstance(error, OSError) else None) or "not a text file"
    hint = "correct ssh.private_key in site.yml, or copy the key there"
    if isinstance(error, PermissionError):
        hint = who_may_read(path)
    return ConfigError(f"the SSH key {path} cannot be read: {reason}", hint=hint)


def _fault(path: Path) -> tuple[str, str] | None:
    """Why a key file cannot be used, and the remedy; None if paramiko accepts it."""
    import paramiko

    fault = (
        "is not a private key in OpenSSH or PEM format",
        "correct ssh.private_key in site.yml: name the private key, without .pub",
    )
    for kind in (paramiko.RSAKey, paramiko.ECDSAKey, paramiko.Ed25519Key):
        try:
            kind.from_private_key_file(str(path))
        except paramiko.PasswordRequiredException:
            fault = (
                "has a passphrase, and no SSH agent holds a key",
                f"ssh-add {shlex.quote(str(path))} (without an agent, first: eval $(ssh-agent))",
            )
        except paramiko.SSHException:
            continue
        else:
            return None
    return fault


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
