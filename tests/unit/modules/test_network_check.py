"""What one host alone can tell of its network."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import closing
from typing import Any

import pytest

from tests.unit.modules.loading import load

network_check = load("network_check", role="preflight")

PEERS = {"node1": "192.0.2.1", "node2": "192.0.2.2"}


class FakePinger:
    """Answers according to what each address takes."""

    def __init__(self, largest: dict[str, int]) -> None:
        self.largest = largest

    def missing(self, addresses: Any, size: int) -> dict[str, str]:
        return {one: "no answer" for one in addresses if self.largest.get(one, 0) < size}


def test_peers_that_answer_in_full_size_are_no_fault() -> None:
    pinger = FakePinger({"192.0.2.1": 1500, "192.0.2.2": 9000})
    assert network_check.peer_faults(PEERS, 1500, pinger) == []


def test_a_small_mtu_and_a_silent_peer_are_distinguished() -> None:
    faults = network_check.peer_faults(PEERS, 1500, FakePinger({"192.0.2.1": 1450}))
    assert (
        "node1 (192.0.2.1) answers a small ping, but not an unfragmented one of 1500 bytes"
        in faults[0]
    )
    assert "node2 (192.0.2.2) does not answer a ping: no answer" in faults[1]


@pytest.mark.parametrize("size", [56, 57, 1472])
def test_an_echo_has_its_size_and_a_right_checksum(size: int) -> None:
    packet = network_check.echo(7, 1, size)
    assert len(packet) == 8 + size - size % 2
    assert network_check.checksum(packet) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")
def test_this_host_answers_itself_and_an_unused_address_does_not() -> None:
    with closing(network_check.Pinger(0.2)) as pinger:
        assert pinger.missing(["127.0.0.1"], 1500) == {}
        assert "127.0.0.1" in pinger.missing(["127.0.0.1"], 65535 + 28)


def test_a_packet_that_the_own_interface_refuses_is_said_so() -> None:
    class Socket:
        def sendto(self, *_: object) -> None:
            raise OSError(errno.EMSGSIZE, "Message too long")

    pinger = network_check.Pinger.__new__(network_check.Pinger)
    pinger._socket, pinger._identifier = Socket(), 1
    assert "own interface refuses a packet of 9000" in pinger._send("192.0.2.1", 9000)


ANSWERS = {"a.test": ["192.0.2.1"], "b.test": ["203.0.113.9"], "self.test": ["127.0.1.1"]}


def lookup(name: str) -> list[str]:
    return ANSWERS.get(name, [])


@pytest.mark.parametrize(
    ("names", "faults", "unresolved"),
    [
        ({"a.test": ["192.0.2.1"]}, [], []),
        ({"a.test": "192.0.2.1"}, [], []),
        ({"self.test": ["192.0.2.1"]}, [], []),
        ({"absent.test": ["192.0.2.1"]}, [], ["absent.test"]),
        ({"b.test": ["192.0.2.1"]}, ["b.test resolves to 203.0.113.9"], []),
    ],
)
def test_only_a_wrong_answer_is_a_fault(
    names: dict[str, Any], faults: list[str], unresolved: list[str]
) -> None:
    found, silent = network_check.name_faults(names, lookup)
    assert [line[: len(faults[0])] for line in found] == faults
    assert silent == unresolved


def test_a_refused_connection_is_fine_and_an_unreachable_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert network_check.endpoint_faults([f"127.0.0.1:{port}"], 1) == []
    assert network_check.endpoint_faults([f"127.0.0.1:{port}"], 1) == []

    def unreachable(*_: object) -> None:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr(network_check.socket, "create_connection", unreachable)
    assert "No route to host" in network_check.endpoint_faults(["192.0.2.1:5000"], 1)[0]
