"""A registry that wants a login is asked once more with what it wants, and with nothing else."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.modules.loading import load_utils
from tests.unit.modules.test_registry_push import self_signed

registry = load_utils("appliance_registry")
LOGIN = base64.b64encode(b"robot$gpu:secret").decode()
PATH = "/v2/gpu/pause/manifests/3.6"


class Guarded:
    """What a registry with a login does; a test changes it."""

    def __init__(self) -> None:
        self.challenge = ""
        self.token: bytes = json.dumps({"token": "given"}).encode()
        self.accepts = "Bearer given"
        self.asked: list[tuple[str, str | None]] = []
        self.scopes: list[str] = []
        self.body = b"{}"
        self.pause, self.missing = 0.0, 0

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        self.asked.append((path, authorization))
        parts = urlsplit(path)
        if parts.path == "/token":
            self.scopes += parse_qs(parts.query)["scope"]
            return (200, self.token) if authorization == f"Basic {LOGIN}" else (401, b"")
        return (200, self.body) if authorization == self.accepts else (401, b"")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Guarded, str, str]]:
    guarded = Guarded()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = guarded.answer(self.path, self.headers["Authorization"])
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", guarded.challenge)
            self.send_header("Content-Length", str(len(body) + guarded.missing))
            self.end_headers()
            self.close_connection = bool(guarded.missing)
            with suppress(OSError):
                for byte in body:
                    time.sleep(guarded.pause)
                    self.wfile.write(bytes([byte]))

        do_DELETE = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    pem = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"127.0.0.1:{server.server_address[1]}"
    guarded.challenge = f'Bearer realm="https://{address}/token",service="harbor"'
    yield guarded, address, str(pem)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def client(served: tuple[Guarded, str, str]) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(login: str | None = LOGIN) -> Any:
        made.append(registry.Client(served[1], served[2], login))
        return made[-1]

    yield make
    for each in made:
        each.close()


Make = Callable[..., Any]


def test_a_bearer_token_is_fetched_with_the_login_and_used_again(
    served: tuple[Guarded, str, str], client: Make
) -> None:
    asked = client()
    assert asked.ask("GET", PATH).status == 200
    assert asked.ask("GET", PATH).status == 200
    assert served[0].scopes == ["repository:gpu/pause:pull"]
    assert [login for path, login in served[0].asked if path == PATH] == [
        None,
        "Bearer given",
        "Bearer given",
    ]


def test_a_basic_challenge_gets_the_login(served: tuple[Guarded, str, str], client: Make) -> None:
    served[0].challenge, served[0].accepts = 'Basic realm="artifactory"', f"Basic {LOGIN}"
    assert client().ask("GET", PATH).status == 200


def test_what_writes_carries_the_login_from_the_start(
    served: tuple[Guarded, str, str], client: Make
) -> None:
    served[0].accepts = f"Basic {LOGIN}"
    asked = client()
    assert asked.ask("DELETE", PATH).status == 200
    assert served[0].asked == [(PATH, f"Basic {LOGIN}")]


@pytest.mark.parametrize(
    ("challenge", "login", "said"),
    [
        ('Basic realm="x"', None, "wants a login"),
        ("", LOGIN, "wants a login"),
        ('Negotiate realm="x"', LOGIN, "wants a login"),
        ('Bearer realm="http://127.0.0.1/token"', LOGIN, "no https address"),
        ('Bearer realm="https://a@127.0.0.1/token"', LOGIN, "no https address"),
        ('Bearer realm="file:///etc/passwd"', LOGIN, "no https address"),
        ("Bearer service=1", LOGIN, "no https address"),
        ('Bearer realm="https://127.0.0.1:port/"', LOGIN, "no readable address"),
        ('Bearer realm="https://[/token"', LOGIN, "no readable address"),
        ('Basic realm="x"', "d3Jvbmc=", "refuses the login"),
    ],
)
def test_a_challenge_that_cannot_be_met_is_reported(
    served: tuple[Guarded, str, str], client: Make, challenge: str, login: str | None, said: str
) -> None:
    served[0].challenge = challenge
    with pytest.raises(registry.RegistryError, match=said):
        client(login).ask("GET", PATH)


def test_a_login_that_the_token_server_refuses_is_reported(client: Make) -> None:
    with pytest.raises(registry.RegistryError, match="gives no token: it answers 401"):
        client("d3Jvbmc=").ask("GET", PATH)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"token": 7}', b'{"token": "a\\r\\nb"}', b"[" * 50000, b'{"token": ""}']
)
def test_an_answer_without_a_token_is_refused(body: bytes) -> None:
    with pytest.raises(registry.RegistryError, match="has no token"):
        registry.token_in(body)


def test_a_token_may_have_its_other_name() -> None:
    assert registry.token_in(b'{"access_token": "abc"}') == "abc"


def test_an_endless_answer_is_refused(
    served: tuple[Guarded, str, str], client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LARGEST_ANSWER", 10)
    served[0].accepts = served[0].challenge = f"Basic {LOGIN}"
    served[0].body = b"x" * 11
    with pytest.raises(registry.RegistryError, match="more than 10 bytes"):
        client().ask("GET", PATH)


def test_an_answer_that_trickles_is_cut_off(
    served: tuple[Guarded, str, str],
    client: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "SECONDS", 0.5)
    served[0].accepts = served[0].challenge = f"Basic {LOGIN}"
    served[0].body, served[0].pause = b"four", 0.3
    with pytest.raises(registry.RegistryError, match="no whole answer within"):
        client().ask("GET", PATH)


def test_an_answer_that_ends_early_is_none(served: tuple[Guarded, str, str], client: Make) -> None:
    served[0].accepts = served[0].challenge = f"Basic {LOGIN}"
    served[0].missing = 3
    with pytest.raises(registry.RegistryError, match="does not answer: IncompleteRead"):
        client().ask("GET", PATH)


def test_a_registry_under_another_certificate_is_not_asked(
    served: tuple[Guarded, str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(registry.RegistryError, match="does not answer"):
        registry.Client(served[1], str(self_signed(other)), LOGIN).ask("GET", PATH)
    assert served[0].asked == []


def test_a_login_is_that_of_the_registry_alone(tmp_path: Path) -> None:
    assert registry.login_in(str(tmp_path), "a:1") is None
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"a:1": {"auth": "coded"}}}))
    assert registry.login_in(str(tmp_path), "a:1") == "coded"
    assert registry.login_in(str(tmp_path), "b:1") is None
    assert registry.login_in(None, "a:1") is None
