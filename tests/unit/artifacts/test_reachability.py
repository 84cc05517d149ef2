"""Asking archives whether they are there: on ports of this machine alone."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from appliance.builder.sources.reach import unanswered

PROXIES = [
    name for lower in ("http_proxy", "https_proxy", "all_proxy") for name in (lower, lower.upper())
]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def server(answer: bytes | None) -> Iterator[int]:
    """A server that answers each connection so; None never answers, b'' hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    if answer is None:
                        held.append(connection)
                        continue
                    with connection:
                        connection.recv(4096)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in held:
            connection.close()


def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def test_an_archive_that_answers_anything_at_all_is_reached() -> None:
    with server(b"HTTP/1.1 403 Forbidden\r\n\r\n") as port:
        assert unanswered([f"http://127.0.0.1:{port}/debian"], patience_seconds=2) == {}


def test_an_archive_behind_tls_is_reached_when_it_takes_the_connection() -> None:
    with server(None) as port:
        assert unanswered([f"https://127.0.0.1:{port}/debian"], patience_seconds=2) == {}


def test_a_refused_connection_is_reported_with_its_reason() -> None:
    uri = f"http://127.0.0.1:{closed_port()}/debian"
    assert "refused" in unanswered([uri], patience_seconds=2)[uri]


def test_a_connection_that_is_hung_up_is_no_answer() -> None:
    with server(b"") as port:
        uri = f"http://127.0.0.1:{port}/debian"
        assert unanswered([uri], patience_seconds=2) == {
            uri: "the connection was closed without an answer"
        }


def test_silence_of_many_costs_the_patience_for_one() -> None:
    with server(None) as port:
        uris = [f"http://127.0.0.1:{port}/{number}" for number in range(20)]
        began = time.monotonic()
        silent = unanswered(uris, patience_seconds=0.5)
        assert time.monotonic() - began < 9
    assert silent == dict.fromkeys(uris, "no answer within 0.5 s")


def test_an_invalid_address_is_reported_and_not_raised() -> None:
    uri = "http://127.0.0.1:port/debian"
    assert set(unanswered([uri], patience_seconds=1)) == {uri}


def test_what_is_no_web_address_is_not_asked() -> None:
    assert unanswered(["copy:/srv/debian", "file:/srv"], patience_seconds=1) == {}


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_behind_a_proxy_nothing_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "http://proxy.test:3128")
    assert unanswered([f"http://127.0.0.1:{closed_port()}"], patience_seconds=1) == {}
