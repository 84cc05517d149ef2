"""The date of an API server's certificate comes from a connection of this machine's own."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from ipaddress import IPv4Interface
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate

from appliance.adapters.support import served
from appliance.model.site.settings import Node
from tests import samples
from tests.unit.probe.test_wire import make_certificate

CP1, CP2 = samples.site(3).control_plane[:2]


def here(node: Node) -> Node:
    return replace(node, address=IPv4Interface("127.0.0.1/8"))


@contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[int]:
    """A port that answers one connection; without a context by something that is no TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    if context is None:
                        connection.sendall(b"hello\n")
                        return
                    context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def test_the_end_of_the_certificate_that_is_shown_is_told(tmp_path: Path) -> None:
    path = make_certificate(tmp_path, "served")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with listening(context) as port:
        found = served.read_served_ends([here(CP1)], port)
    pem = path.read_bytes()
    expected = load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    assert datetime.fromisoformat(found["cp1"]) == expected.not_valid_after_utc


def test_what_speaks_no_tls_or_nothing_is_left_out() -> None:
    with listening(None) as port:
        assert served.read_served_ends([here(CP1)], port) == {}
    assert served.read_served_ends([here(CP1), here(CP2)], port) == {}
    assert served.read_served_ends([]) == {}


def test_a_certificate_of_a_version_that_is_none_is_left_out(tmp_path: Path) -> None:
    path = make_certificate(tmp_path, "served")
    key, begin, rest = path.read_text().partition("-----BEGIN CERTIFICATE-----")
    der = ssl.PEM_cert_to_DER_cert(begin + rest)
    other = der.replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020104"), 1)
    assert other != der
    path.write_text(key + ssl.DER_cert_to_PEM_cert(other))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with listening(context) as port:
        assert served.read_served_ends([here(CP1)], port) == {}
