"""The certificates that servers show to this machine, by a TLS connection of its own.

A server has to hold the key of the certificate that it shows, so its date is no mere word of the
node. Who signed it is not judged here: the only authority that is known came from the nodes too.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from appliance.model.backup.names import plain_words
from appliance.model.components.control_plane.immutable_settings import API_PORT

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

_SECONDS: Final = 3.0
# For all of a handshake: a server may send one byte now and then.
_ALL_SECONDS: Final = 10.0


def read_served_ends(asked: Sequence[Node], port: int = API_PORT) -> Mapping[str, str]:
    """Node -> when its certificate ends (ISO 8601); without those that this machine cannot reach.

    Args:
        asked: the control-plane nodes.
        port: of their API servers.
    """
    if not asked:
        return {}
    with ThreadPoolExecutor(len(asked)) as pool:
        ends = pool.map(lambda node: _served_end(node.ip, port), asked)
    return {node.name: end for node, end in zip(asked, ends, strict=True) if end}


def _served_end(address: str, port: int) -> str:
    return shown_end(address, port)[0]


def shown_end(address: str, port: int, name: str | None = None) -> tuple[str, str]:
    """When the certificate ends that a server shows to this machine; nothing of it is verified.

    Args:
        address: of the server, or its name.
        port: of it.
        name: that is asked for, where one address serves several.

    Returns:
        The moment (ISO 8601), or an empty string; and why it is unknown, or an empty string.
    """
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address, port), timeout=_SECONDS) as connection,
            context.wrap_socket(
                connection, server_hostname=name, do_handshake_on_connect=False
            ) as channel,
        ):
            _shake_hands(channel)
            shown = channel.getpeercert(binary_form=True)
        return load_der_x509_certificate(shown or b"").not_valid_after_utc.isoformat(), ""
    except (ValueError, InvalidVersion):
        return "", "its certificate cannot be read"
    except OSError as error:
        return "", plain_words(error.strerror or str(error), 200)


def _shake_hands(channel: ssl.SSLSocket) -> None:
    """Greet, within a time for all of it.

    Raises:
        OSError: it is no TLS, or it took too long.
    """

    def give_up() -> None:
        with suppress(OSError):
            # Not of the TLS layer, which is at work in the other thread.
            socket.socket.shutdown(channel, socket.SHUT_RDWR)

    limit = threading.Timer(_ALL_SECONDS, give_up)
    limit.daemon = True
    limit.start()
    try:
        channel.do_handshake()
    finally:
        limit.cancel()
