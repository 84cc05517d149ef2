"""An API server that has ended its answers goes at once; one that listens is left alone."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load_utils

ending = load_utils("appliance_api_ending")


class Machine:
    """This process plays the API server: its sockets are real, its end is not."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.seconds = 0.0
        self.started = 5.0
        self.killed: list[tuple[int, int]] = []
        self.is_there = True
        self.watch = ending.EndingServers(
            servers=self.servers,
            port=self.port,
            clock=lambda: self.seconds,
            kill=lambda pid, number: self.killed.append((pid, number)),
        )

    def servers(self) -> list[dict[str, Any]]:
        flags = {"secure-port": str(self.port)}
        one = {"pid": os.getpid(), "flags": flags, "started": self.started}
        return [one] if self.is_there else []

    def look(self, seconds: float) -> None:
        self.seconds = seconds
        self.watch.look()


@pytest.fixture
def machine() -> Iterator[Machine]:
    found = Machine()
    yield found
    found.socket.close()


def test_one_that_listens_is_never_told(machine: Machine) -> None:
    for seconds in range(0, 120, 5):
        machine.look(seconds)
    assert machine.killed == []


def test_one_that_stopped_listening_is_told_once_after_its_time(machine: Machine) -> None:
    machine.look(0)
    machine.socket.close()
    machine.look(1)
    machine.look(1 + ending.ANSWER_SECONDS - 0.1)
    assert machine.killed == []
    machine.look(1 + ending.ANSWER_SECONDS)
    machine.look(2 + ending.ANSWER_SECONDS)
    assert machine.killed == [(os.getpid(), signal.SIGTERM)]


def test_one_that_begins_is_not_told(machine: Machine) -> None:
    machine.socket.close()
    for seconds in range(0, 120, 5):
        machine.look(seconds)
    assert machine.killed == []


def test_another_process_of_the_same_number_is_not_told(machine: Machine) -> None:
    machine.look(0)
    machine.socket.close()
    machine.look(1)
    machine.started = 60.0
    machine.look(100)
    machine.look(200)
    assert machine.killed == []


def test_one_that_went_by_itself_is_not_told(machine: Machine) -> None:
    machine.look(0)
    machine.socket.close()
    machine.look(1)
    machine.is_there = False
    machine.look(100)
    assert machine.killed == []


def test_a_port_that_is_no_number_stops_nothing() -> None:
    for word in ("x", "\u00b2", "9" * 99):
        assert ending._port({"secure-port": word}) == 6443
    assert ending._port({}) == 6443
    assert ending._port({"secure-port": "8443"}) == 8443


def test_the_api_server_of_another_cluster_on_this_node_is_not_told(machine: Machine) -> None:
    """One in a pod with the network of the host, on a port of its own."""
    machine.watch._port = 6443
    machine.look(0)
    machine.socket.close()
    for seconds in range(1, 60):
        machine.look(seconds)
    assert machine.killed == []


def test_the_port_is_that_of_the_manifest_of_this_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = tmp_path / "kube-apiserver.yaml"
    monkeypatch.setattr(ending, "MANIFEST", manifest)
    assert ending.EndingServers()._port == 6443
    manifest.write_text("    - kube-apiserver\n    - --secure-port=7443\n")
    assert ending.EndingServers()._port == 7443


@pytest.mark.parametrize("missing", ["net/tcp", "net/tcp6", "PID/fd"])
def test_where_a_table_cannot_be_read_nobody_is_told(missing: str, tmp_path: Path) -> None:
    """What cannot be read shows no closed port."""
    (tmp_path / "net").mkdir()
    (tmp_path / "4711" / "fd").mkdir(parents=True)
    (tmp_path / "4711" / "fd" / "3").symlink_to("socket:[99]")
    row = "0: 00000000:192B 00000000:0000 0A 0:0 0:0 0 0 0 99"
    (tmp_path / "net" / "tcp").write_text("head\n")
    (tmp_path / "net" / "tcp6").write_text(f"head\n{row}\n")
    seconds, killed = [0.0], list[Any]()
    watch = ending.EndingServers(
        port=6443,
        servers=lambda: [{"pid": 4711, "flags": {}, "started": 5.0}],
        proc=tmp_path,
        clock=lambda: seconds[0],
        kill=lambda *words: killed.append(words),
    )
    watch.look()
    path = tmp_path / missing.replace("PID", "4711")
    path.rename(tmp_path / "away")
    # Reading it is an error; that there is none would say that IPv6 is off.
    path.symlink_to(path)
    for seconds[0] in range(1, 60):
        with suppress(OSError):
            watch.look()
    assert killed == []


def test_a_look_that_hangs_holds_up_nobody_and_tells_nobody_late(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "JOIN_SECONDS", 0.0)
    hangs, looked, told = threading.Event(), threading.Event(), list[int]()

    def servers() -> list[dict[str, Any]]:
        looked.set()
        hangs.wait()
        return machine.servers()

    watch = ending.EndingServers(
        servers=servers,
        port=machine.port,
        clock=lambda: 100.0,
        kill=lambda pid, _: told.append(pid),
    )
    known = (os.getpid(), machine.started)
    watch._listened, watch._closed = {known}, {known: 0.0}
    machine.socket.close()
    with watch:
        looked.wait()
    hangs.set()
    watch._thread.join()
    assert told == []


def test_it_looks_by_itself_until_it_is_over(machine: Machine) -> None:
    looked: list[int] = []

    def servers() -> list[dict[str, Any]]:
        looked.append(1)
        return machine.servers()

    with ending.EndingServers(servers=servers, port=machine.port) as watch:
        while not looked:
            pass
    assert not watch._thread.is_alive()
