"""BMCs of no site yet: the fingerprints of their certificates, and the hardware they tell."""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Final, TypeVar

from appliance.adapters.hardware.redfish_hardware import RedfishHardware
from appliance.adapters.hardware.redfish_session import HTTPS
from appliance.adapters.ssh.call import ended_after
from appliance.model.checks.discovery.found import Failed, Found, found_by_bmc
from appliance.model.node.bmc.report import PASSWORD_NAME, USER_NAME
from appliance.model.site.settings import Node

if TYPE_CHECKING:
    from appliance.model.checks.discovery.pins import Pins
    from appliance.model.checks.discovery.targets import Target

CONNECT_SECONDS: Final = 8.0
HANDSHAKE_SECONDS: Final = 20.0
MOST_AT_ONCE: Final = 64
_T = TypeVar("_T")


class RedfishProspects:
    """The BMCs at first contact.

    Args:
        user: who logs in.
        port: of the BMCs.
    """

    def __init__(self, user: str, port: int = HTTPS) -> None:
        self._user, self._port = user, port

    def keys(self, targets: Sequence[Target]) -> Mapping[Target, str | Failed]:
        """The SHA-256 fingerprint of each target's certificate; no login."""
        return _each(targets, lambda target: _fingerprint(str(target.address), self._port))

    def read(
        self, targets: Sequence[Target], pins: Pins, password: str
    ) -> Mapping[Target, Found | Failed]:
        """Log in and look; changes nothing."""
        secrets = {USER_NAME: self._user, PASSWORD_NAME: password}
        reader = RedfishHardware(lambda: secrets, self._port)

        def look(target: Target) -> Found | Failed:
            node = Node(
                str(target.address),
                IPv4Interface(target.address),
                frozenset(),
                bmc_address=target.address,
                bmc_fingerprint=pins[target],
            )
            machine = reader.inspect(node)
            return Failed(machine) if isinstance(machine, str) else found_by_bmc(target, machine)

        return _each(targets, look)


def _fingerprint(address: str, port: int) -> str | Failed:
    # The certificate is not judged here, only shown: a person compares it before any login.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address, port), timeout=CONNECT_SECONDS) as plain,
            context.wrap_socket(plain, do_handshake_on_connect=False) as secured,
            # Its own shutdown would drop the TLS state that the handshake uses.
            ended_after(
                HANDSHAKE_SECONDS, lambda: socket.socket.shutdown(secured, socket.SHUT_RDWR)
            ),
        ):
            secured.do_handshake()
            certificate = secured.getpeercert(binary_form=True)
    except (OSError, ValueError) as error:
        return Failed(f"no TLS on port {port}: {str(error)[:200] or type(error).__name__}")
    return hashlib.sha256(certificate).hexdigest() if certificate else Failed("no certificate")


def _each(targets: Sequence[Target], act: Callable[[Target], _T]) -> dict[Target, _T]:
    if not targets:
        return {}
    # Imported before the threads start: parallel imports can meet an incomplete module.
    import sushy  # noqa: F401

    pool = ThreadPoolExecutor(min(len(targets), MOST_AT_ONCE))
    try:
        return dict(zip(targets, pool.map(act, targets), strict=True))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
