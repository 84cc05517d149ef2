"""Asking a TLS service: verified with one CA, and never longer than a moment."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from appliance.probe.services import wire
from appliance.probe.source import Machine, Request, Source


class Handler(http.server.BaseHTTPRequestHandler):
    """Knows one page, and one that is slow."""

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(3)
        self.send_response(200 if self.path == "/v2/" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        """Say nothing."""


def make_certificate(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An address, and the CA that vouches for it."""
    certificate = make_certificate(tmp_path, "served")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", certificate
    server.shutdown()
    server.server_close()


def _source() -> Source:
    return Source(Machine(Path("/"), None, Request()), "x")


def _ask(url: str, ca: Path) -> dict[str, Any]:
    return wire.https_status(_source(), "k", url, ca=str(ca))


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of somebody who takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"https://127.0.0.1:{server.getsockname()[1]}/v2/"


def test_a_service_that_answers_and_is_vouched_for(served: tuple[str, Path]) -> None:
    address, ca = served
    url = f"{address}/v2/"
    assert _ask(url, ca) == {"url": url, "ok": True, "code": 200, "error": None}


def test_an_answer_that_is_no_success(served: tuple[str, Path]) -> None:
    address, ca = served
    found = _ask(f"{address}/other", ca)
    assert (found["ok"], found["code"]) == (False, 404)


def test_a_service_that_another_ca_vouches_for(served: tuple[str, Path], tmp_path: Path) -> None:
    found = _ask(f"{served[0]}/v2/", make_certificate(tmp_path, "another"))
    assert (found["ok"], found["code"]) == (False, None)
    assert "self-signed certificate" in found["error"].replace("self signed", "self-signed")


def test_without_the_sites_ca_nothing_is_asked(served: tuple[str, Path]) -> None:
    assert _ask(f"{served[0]}/v2/", Path("/no/ca.crt"))["error"] == "no CA at /no/ca.crt"


def test_a_port_without_a_listener(served: tuple[str, Path]) -> None:
    assert "refused" in _ask("https://127.0.0.1:1/v2/", served[1])["error"]


def test_a_service_that_is_slow_is_not_waited_for(
    served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "ANSWER_SECONDS", 0.2)
    began = time.monotonic()
    source, url = _source(), f"{served[0]}/slow"
    found = wire.https_status(source, "k", url, ca=str(served[1]))
    assert time.monotonic() - began < 2
    assert found["error"] == "no answer within 0 s"
    assert source.machine.unreadable == [{"section": "x", "reason": f"{url}: no answer in time"}]


def test_a_connection_that_stays_silent_is_late(silent: str, served: tuple[str, Path]) -> None:
    source = _source()
    source.machine.deadline = time.monotonic() + 0.3
    found = wire.https_status(source, "k", silent, ca=str(served[1]))
    assert found["ok"] is False
    assert source.machine.unreadable == [{"section": "x", "reason": f"{silent}: no answer in time"}]


def test_a_document_that_does_not_come_in_time_is_late(
    silent: str, served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "DOCUMENT_SECONDS", 0.3)
    source = _source()
    document, error = wire.https_document(source, "k", silent, served[1].read_text())
    assert document is None
    assert error
    assert source.machine.unreadable == [{"section": "x", "reason": f"{silent}: no answer in time"}]


def test_who_refuses_is_not_late(served: tuple[str, Path]) -> None:
    source, url = _source(), "https://127.0.0.1:1/v2/"
    wire.https_status(source, "k", url, ca=str(served[1]))
    wire.https_status(source, "k", f"{served[0]}/other", ca=str(served[1]))
    assert wire.https_document(source, "k", url, served[1].read_text())[0] is None
    assert source.machine.unreadable == []


def test_the_certificate_may_be_for_another_name_than_the_address(
    served: tuple[str, Path],
) -> None:
    address, ca = served
    source = Source(Machine(Path("/"), None, Request()), "x")
    for name, ok in (("localhost", True), ("kubernetes", False)):
        found = wire.https_status(source, "k", f"{address}/v2/", ca=str(ca), name=name)
        assert found["ok"] is ok, found


def test_a_service_is_asked_at_an_address_under_a_ca_that_is_no_file(
    served: tuple[str, Path],
) -> None:
    address, ca = served
    url = f"{address.replace('127.0.0.1', 'localhost')}/v2/"
    asked = wire.Question(url, "/no/such/file", pem=ca.read_text(), at="127.0.0.1")
    assert wire.https_answer(_source(), "k", asked)["ok"]
    other = make_certificate(ca.parent, "other").read_text()
    refused = wire.https_answer(_source(), "k", asked._replace(pem=other))
    assert refused["code"] is None
    assert "certificate" in refused["error"]


def test_a_ca_that_is_no_certificate_is_an_error_of_the_question(served: tuple[str, Path]) -> None:
    asked = wire.Question(f"{served[0]}/v2/", "/no/such/file", pem="PEM")
    assert wire.https_answer(_source(), "k", asked)["code"] is None
