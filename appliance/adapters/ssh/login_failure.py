"""Why a login to a node failed, in the words of the operator's next step."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from appliance.adapters.ssh.trust.known_hosts import entry_name
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import (
    CONNECT_SECONDS,
    copy_key_command,
    jump_login_command,
    ssh_command,
)
from appliance.model.state.nodes.unreachable import (
    NOT_SSH,
    UNKNOWN_HOST_KEY,
    WRONG_HOST_KEY,
    Way,
    in_plain_words,
    way_through,
)
from appliance.model.state.observed import LOGIN_REFUSED

if TYPE_CHECKING:
    import paramiko

# What paramiko says of a host key that is in none of its files.
_UNKNOWN = "not found in known_hosts"


def told_of_login(error: Exception, transport: paramiko.Transport | None) -> Exception:
    """The node's refusal, where paramiko raised what it says of the key's file instead.

    paramiko reads the file as RSA, ECDSA and Ed25519 in turn, and raises the last error: a node
    that refused an RSA key is reported as "Invalid key". The file itself was checked before, by
    :func:`appliance.adapters.ssh.trust.keys.check_private_key`.

    Args:
        error: what ``SSHClient.connect`` raised.
        transport: of the connection, before it is closed; None if there was none.
    """
    import paramiko

    waits_for_login = transport is not None and transport.is_active() and transport.initial_kex_done
    if waits_for_login and type(error) is paramiko.SSHException and _UNKNOWN not in str(error):
        return paramiko.AuthenticationException(str(error))
    return error


def login_failure(site: Site, node: Node, error: Exception, said: str = "") -> NodeUnreachable:
    """What an error of paramiko means for the operator, with the command that helps.

    Args:
        site: whose connection failed.
        node: the node that was asked.
        error: of paramiko, or of the kernel.
        said: what the jump host's ``ssh`` said on stderr.
    """
    import paramiko

    address, known, connection = node.address.ip, site.known_hosts, site.settings.ssh
    where = f"{node.name} ({address})"
    host = shlex.quote(entry_name(str(address), connection.port))
    if isinstance(error, paramiko.BadHostKeyException):
        return NodeUnreachable(
            f"{where}: {WRONG_HOST_KEY}: found {_fingerprint(error.key)}, "
            f"expected {_fingerprint(error.expected_key)} of {known}",
            hint="check that it is the right machine; if it was reinstalled: "
            f"ssh-keygen -R {host} -f {known} "
            "&& appliance install --accept-host-keys",
            answers=True,
            cause=WRONG_HOST_KEY,
        )
    if isinstance(error, paramiko.AuthenticationException):
        key = connection.private_key or "the keys of the SSH agent"
        cause = f"{LOGIN_REFUSED} {connection.user} with {key}"
        return NodeUnreachable(
            f"{where}: {cause}",
            hint=f"install the public key there: {copy_key_command(site, node)}",
            answers=True,
            cause=cause,
        )
    if isinstance(error, paramiko.SSHException) and _UNKNOWN in str(error):
        return NodeUnreachable(
            f"{where}: its host key is not in {known}",
            hint="compare and confirm the keys: appliance install --accept-host-keys",
            answers=True,
            cause=f"{UNKNOWN_HOST_KEY} {known}",
        )
    return _no_connection(site, node, error, said)


def _no_connection(site: Site, node: Node, error: Exception, said: str) -> NodeUnreachable:
    """Nothing there spoke SSH with us: the node, its port, or the jump host."""
    connection, address = site.settings.ssh, node.address.ip
    where, jump_host = f"{node.name} ({address})", connection.jump_host
    cause = _reason(error)
    hint = f"check that it is powered on, cabled and on this network: ping {address}"
    if cause == NOT_SSH:
        hint = f"see what answers there: {ssh_command(site, node, verbose=True)}"
    if jump_host:
        hint = f"check that it is powered on, and test the way: {ssh_command(site, node, 'true')}"
        way = way_through(jump_host, said)
        if way is None and cause == NOT_SSH:
            way = Way(f"no answer through the jump host {jump_host}")
        cause = way.cause if way else cause
        if way and way.at_jump_host:
            return NodeUnreachable(
                f"{where}: {cause}",
                hint=f"test the jump host: {jump_login_command(site)}",
                cause=cause,
            )
    return NodeUnreachable(
        f"{where}: no SSH on port {connection.port}: {cause}",
        hint=hint,
        answers=_is_alive(error, direct=not jump_host),
        cause=f"no SSH on port {connection.port}: {cause}",
    )


def _reason(error: Exception) -> str:
    """Why there is no connection; paramiko wraps the kernel's error in its own."""
    causes = getattr(error, "errors", None) or {}
    cause = next((one for one in causes.values() if isinstance(one, OSError)), error)
    if isinstance(cause, TimeoutError):
        return f"no answer within {CONNECT_SECONDS} s"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return in_plain_words(str(cause))


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


def login_timed_out(site: Site, node: Node, seconds: float) -> NodeUnreachable:
    """A login that did not end in its time."""
    return NodeUnreachable(
        f"{node.name} ({node.address.ip}): the SSH login timed out after {seconds:g} s",
        hint=f"see where it hangs: {ssh_command(site, node, verbose=True)}",
        answers=True,
        cause=f"the SSH login timed out after {seconds:g} s",
    )
