"""The certificates that API servers show to this machine, by a TLS connection of its own.

A server has to hold the key of the certificate that it shows, so its date is no mere word of the
node. Who signed it is not judged here: the only authority that is known came from the nodes too.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from appliance.model.components.control_plane.immutable_settings import API_PORT

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

_SECONDS: Final = 3.0


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
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address, port), timeout=_SECONDS) as connection,
            context.wrap_socket(connection) as channel,
        ):
            shown = channel.getpeercert(binary_form=True)
        return load_der_x509_certificate(shown or b"").not_valid_after_utc.isoformat()
    except (OSError, ValueError, InvalidVersion):
        return ""
