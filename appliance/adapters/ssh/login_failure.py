"""Why a login to a node failed, in the words of the operator's next step."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from appliance.adapters.ssh.known_hosts import entry_name
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import CONNECT_SECONDS, jump_command

if TYPE_CHECKING:
    import paramiko

# What paramiko says of a host key that is in none of its files.
_UNKNOWN = "not found in known_hosts"


def login_of(site: Site, node: Node) -> str:
    """The arguments of ``ssh`` that log in to a node directly."""
    connection = site.settings.ssh
    port = "" if connection.port == 22 else f"-p {connection.port} "
    return f"{port}{connection.user}@{node.address.ip}"


def told_of_login(error: Exception, transport: paramiko.Transport | None) -> Exception:
    """The node's refusal, where paramiko raised what it says of the key's file instead.

    paramiko reads the file as RSA, ECDSA and Ed25519 in turn, and raises the last error: a node
    that refused an RSA key is reported as "Invalid key". The file itself was checked before, by
    :func:`appliance.adapters.ssh.keys.check_private_key`.

    Args:
        error: what ``SSHClient.connect`` raised.
        transport: of the connection, before it is closed; None if there was none.
    """
    import paramiko

    waits_for_login = transport is not None and transport.is_active() and transport.initial_kex_done
    if waits_for_login and type(error) is paramiko.SSHException and _UNKNOWN not in str(error):
        return paramiko.AuthenticationException(str(error))
    return error


def login_failure(site: Site, node: Node, error: Exception) -> NodeUnreachable:
    """What an error of paramiko means for the operator, with the command that helps."""
    import paramiko

    address, known, connection = node.address.ip, site.known_hosts, site.settings.ssh
    where = f"{node.name} ({address})"
    host = shlex.quote(entry_name(str(address), connection.port))
    if isinstance(error, paramiko.BadHostKeyException):
        return NodeUnreachable(
            f"{where}: wrong host key: found {_fingerprint(error.key)}, "
            f"expected {_fingerprint(error.expected_key)} of {known}",
            hint="check that it is the right machine; if it was reinstalled: "
            f"ssh-keygen -R {host} -f {known} "
            "&& appliance install --accept-host-keys",
            answers=True,
        )
    if isinstance(error, paramiko.AuthenticationException):
        return NodeUnreachable(
            f"{where}: authentication failed for user {connection.user} with "
            f"{connection.private_key or 'the keys of the SSH agent'}",
            hint=f"install the public key there: ssh-copy-id {login_of(site, node)}",
            answers=True,
        )
    if isinstance(error, paramiko.SSHException) and _UNKNOWN in str(error):
        return NodeUnreachable(
            f"{where}: its host key is not in {known}",
            hint="compare and confirm the keys: appliance install --accept-host-keys",
            answers=True,
        )
    hint = f"check that it is powered on, cabled and on this network: ping {address}"
    if command := jump_command(site, f"{address}:{connection.port}"):
        hint = f"check that it is powered on, and test the jump host: {command}"
    return NodeUnreachable(
        f"{where}: no SSH on port {connection.port}: {_reason(error)}",
        hint=hint,
        answers=_is_alive(error, direct=not connection.jump_host),
    )


def _reason(error: Exception) -> str:
    """Why there is no connection; paramiko wraps the kernel's error in its own."""
    causes = getattr(error, "errors", None) or {}
    cause = next((one for one in causes.values() if isinstance(one, OSError)), error)
    if isinstance(cause, TimeoutError):
        return f"no answer within {CONNECT_SECONDS} s"
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause)


def _is_alive(error: Exception, *, direct: bool) -> bool:
    """Whether a machine answered: it refused the connection, or accepted it and was silent.

    Through a jump host this cannot be distinguished from a machine that is off.
    """
    import paramiko

    if not direct:
        return False
    causes = (getattr(error, "errors", None) or {}).values()
    refused = any(isinstance(cause, ConnectionError) for cause in (error, *causes))
    return refused or isinstance(error, EOFError | paramiko.SSHException)


def _fingerprint(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"
