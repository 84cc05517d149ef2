"""A BMC that is not one: slow, endless, packed, or pointing elsewhere. It costs its own report."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from appliance.adapters.hardware import redfish, redfish_limits
from appliance.adapters.hardware.redfish import RedfishBmcs
from appliance.model.node.bmc.report import BmcReport
from appliance.model.state.facts.identity import MachineIdentity
from tests import samples
from tests.standins.simulated_bmcs import ADDRESS, LOGIN, certificate

W1 = replace(samples.site().node("w1"), bmc_address=IPv4Address(ADDRESS))
SECONDS = 1.0
# Where time is not what is tried.
ENOUGH = 60.0
MOST_BYTES = 64 * 1024
LATE = f"no complete answer within {SECONDS:g} s"
TOO_MUCH = f"its answers are larger than {MOST_BYTES // 1024} KiB"
Say = Callable[[socket.socket], None]


class Liar:
    """Answers every request by what it is told to do for its path; else like a BMC."""

    def __init__(self, folder: Path) -> None:
        self.authority = (folder / "bmc.crt").read_text()
        self.ways: dict[str, Say] = {}
        self.asked: list[str] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "bmc.crt", folder / "bmc.key")
        self._listening = socket.create_server((ADDRESS, 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Take no more connections; one that is open ends with its client."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, plain: socket.socket) -> None:
        with suppress(OSError, ValueError), self._context.wrap_socket(plain, True) as connection:
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(4096)
            text = request.decode()
            self.asked.append(text)
            path = text.split()[1].rstrip("/")
            self.ways.get(path, document(TREE.get(path, {})))(connection)


TREE: dict[str, dict[str, object]] = {
    "/redfish/v1": {
        "@odata.id": "/redfish/v1",
        "Id": "RootService",
        "Name": "liar",
        "RedfishVersion": "1.8.0",
        "Systems": {"@odata.id": "/redfish/v1/Systems"},
    },
    "/redfish/v1/Systems": {
        "@odata.id": "/redfish/v1/Systems",
        "Name": "Systems",
        "Members": [{"@odata.id": "/redfish/v1/Systems/1"}],
    },
    "/redfish/v1/Systems/1": {
        "@odata.id": "/redfish/v1/Systems/1",
        "Id": "1",
        "Name": "one",
        "SerialNumber": "SN-w1",
        "PowerState": "Off",
    },
}


def document(found: object, head: str = "200 OK", *more: str, body: bytes | None = None) -> Say:
    """One whole answer."""
    text = json.dumps(found).encode() if body is None else body
    lines = [f"HTTP/1.1 {head}", "Content-Type: application/json", "Connection: close", *more]
    whole = "\r\n".join([*lines, f"Content-Length: {len(text)}", "", ""]).encode() + text
    return lambda connection: connection.sendall(whole)


def endlessly(begin: bytes, again: bytes, pause: float) -> Say:
    """Words without an end; the client's end ends it."""

    def say(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(again)
            time.sleep(pause)

    return say


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("liar")
    certificate(found)
    return found


@pytest.fixture
def liar(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Liar]:
    monkeypatch.setattr(redfish, "BMC_SECONDS", ENOUGH)
    monkeypatch.setattr(redfish, "MOST_BYTES", MOST_BYTES)
    found = Liar(folder)
    yield found
    found.close()


def report(liar: Liar) -> BmcReport:
    secrets = {
        "vault_bmc_user": LOGIN["user"],
        "vault_bmc_password": LOGIN["password"],
        "vault_bmc_ca_certificate": liar.authority,
    }
    found = RedfishBmcs(lambda: secrets, liar.port).report(W1)
    assert found is not None
    return found


def test_the_premise_it_is_believed_while_it_behaves(liar: Liar) -> None:
    assert report(liar) == BmcReport("SN-w1", powered_off=True)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("path", ["/redfish/v1", "/redfish/v1/Systems/1"])
@pytest.mark.parametrize(
    ("say", "reason"),
    [
        (endlessly(b"HTTP/1.1 200", b" ", 0.05), LATE),
        (endlessly(HEAD + b"X: ", b"x", 0.05), LATE),
        (endlessly(HEAD + b"Content-Length: 100000\r\n\r\n", b" ", 0.05), LATE),
        (endlessly(CHUNKED, b"1\r\n \r\n", 0.05), LATE),
        (endlessly(b"", b"", 0.05), LATE),
        (endlessly(HEAD + b"\r\n", b" " * 4096, 0), TOO_MUCH),
        (endlessly(CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n", 0), TOO_MUCH),
        (endlessly(CHUNKED + b"0\r\n", b"X-Trailer: x\r\n" * 100, 0), TOO_MUCH),
        (endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0), TOO_MUCH),
        (endlessly(HEAD, b"X: " + b"x" * 1000 + b"\r\n", 0), ""),
    ],
    ids=[
        *("status line drips", "header drips", "body drips", "chunks drip", "silence"),
        *("body flood", "chunk flood", "trailer flood", "endless Continue", "header flood"),
    ],
)
def test_an_answer_without_an_end_ends_within_its_limits(
    liar: Liar, path: str, say: Say, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == LATE:
        monkeypatch.setattr(redfish, "BMC_SECONDS", SECONDS)
    liar.ways[path] = say
    began = time.monotonic()
    found = report(liar)
    assert time.monotonic() - began < ENOUGH / 2
    assert reason in found.reason
    assert found.reason.startswith(f"the BMC at https://{ADDRESS}:{liar.port}: ")
    assert not found.confirms_off(MachineIdentity("SN-w1"))


def test_answers_that_are_each_in_time_do_not_add_up_to_for_ever(
    liar: Liar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redfish, "BMC_SECONDS", SECONDS)

    def round_and_round(connection: socket.socket) -> None:
        time.sleep(0.2)
        document({}, "302 Found", "Location: /redfish/v1/")(connection)

    liar.ways["/redfish/v1"] = round_and_round
    assert LATE in report(liar).reason


def test_a_packed_answer_is_not_unpacked(liar: Liar) -> None:
    packed = gzip.compress(b" " * 20_000_000 + b"{}")
    assert len(packed) < MOST_BYTES, "the premise: the limit of bytes does not see it"
    liar.ways["/redfish/v1"] = document(None, "200 OK", "Content-Encoding: gzip", body=packed)
    assert "compressed" in report(liar).reason


@pytest.mark.parametrize("scheme", ["https://", "http://", "//"])
@pytest.mark.parametrize("way", ["link", "redirect", "port of its own"])
def test_a_reference_to_another_host_is_not_followed(
    liar: Liar, folder: Path, scheme: str, way: str
) -> None:
    other = Liar(folder)
    host = ADDRESS if way == "port of its own" else "localhost"
    elsewhere = f"{scheme}{host}:{other.port}/redfish/v1/Systems"
    if way == "link":
        root = TREE["/redfish/v1"] | {"Systems": {"@odata.id": elsewhere}}
        liar.ways["/redfish/v1"] = document(root)
    else:
        moved = document({}, "307 Temporary Redirect", f"Location: {elsewhere}")
        liar.ways["/redfish/v1/Systems"] = moved
    try:
        reason = report(liar).reason
    finally:
        other.close()
    assert "it refers to another host" in reason
    assert f"{host}:{other.port}" in reason
    assert other.asked == []


def test_a_redirect_within_the_bmc_is_followed(liar: Liar) -> None:
    liar.ways["/redfish/v1/Systems"] = document({}, "301 Moved", "Location: /redfish/v1/Two")
    liar.ways["/redfish/v1/Two"] = document(TREE["/redfish/v1/Systems"])
    assert report(liar) == BmcReport("SN-w1", powered_off=True)


def test_neither_a_proxy_nor_a_netrc_of_the_environment_is_used(
    liar: Liar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {ADDRESS} login other password other-password\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTPS_PROXY", f"http://{ADDRESS}:9")
    assert report(liar).serial == "SN-w1"


def test_a_collection_of_thousands_is_counted_and_not_walked(liar: Liar) -> None:
    members = [{"@odata.id": f"/redfish/v1/Systems/{n}"} for n in range(1000)]
    systems = TREE["/redfish/v1/Systems"] | {"Members": members}
    liar.ways["/redfish/v1/Systems"] = document(systems)
    assert "lists 1000 systems, expected one" in report(liar).reason
    # The question for the way of logging in, the root, and the collection.
    assert len(liar.asked) == 3


@pytest.mark.parametrize(
    ("url", "its_own"),
    [
        ("https://198.18.7.9:443/redfish/v1", True),
        ("https://198.18.7.9/redfish/v1", True),
        ("https://198.18.7.9:8443/redfish/v1", False),
        ("https://198.18.7.90/redfish/v1", False),
        ("https://198.18.7.9@evil.test/redfish/v1", False),
        ("https://198.18.7.9:443@evil.test/redfish/v1", False),
        ("https://198.18.7.9\\@evil.test/redfish/v1", False),
        ("http://198.18.7.9/redfish/v1", False),
        ("", False),
    ],
)
def test_whose_link_it_is(url: str, its_own: bool) -> None:
    places = redfish_limits.Limits("https://198.18.7.9:443", 5, 10).places
    assert url.startswith(places) is its_own


def test_a_clock_that_is_set_back_gives_no_more_time() -> None:
    now = [100.0]
    limits = redfish_limits.Limits("https://b", 5, 10, clock=lambda: now[0])
    assert limits.left() == 5
    now[0] = 105.0
    with pytest.raises(TimeoutError, match="no complete answer within 5 s"):
        limits.left()
