"""Control planes whose API port does not take a connection: what they cost, and what is said."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.kubernetes.api import KubernetesApi
from appliance.adapters.kubernetes.connection import connection as kubernetes
from appliance.adapters.kubernetes.connection import first as kubernetes_first
from appliance.adapters.kubernetes.connection.client import NotReadable
from appliance.adapters.kubernetes.connection.first import first_open
from appliance.adapters.ssh import tunnel as ssh_tunnel
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node
from tests import samples
from tests.ssh_server import says, servers
from tests.unit.adapters.api_servers import kubeconfig_of

NODES = samples.site(masters=3).control_plane


@contextmanager
def deaf(address: str, port: int) -> Iterator[int]:
    """A port whose queue is full: the kernel drops each further request for a connection."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind((address, port))
        full.listen(0)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield int(full.getsockname()[1])


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesApi]:
    """Three control-plane nodes that answer over SSH and whose API port is deaf."""
    says_credentials = says(kubeconfig_of(tmp_path).encode())
    with servers(tmp_path) as serving, ExitStack() as stack:
        site = samples.site(masters=3)
        site = serving.serve(site, {node.name: says_credentials for node in site.nodes})
        port = 0
        for node in site.control_plane:
            port = stack.enter_context(deaf(str(node.address.ip), port))
        monkeypatch.setattr(kubernetes, "API_PORT", port)
        monkeypatch.setattr(ssh_tunnel, "OPEN_SECONDS", 0.3)
        nodes = SshNodes(site)
        stack.callback(nodes.close)
        yield KubernetesApi(site, nodes)


def test_what_takes_no_connection_is_given_up_by_its_own_limit(api: KubernetesApi) -> None:
    with pytest.raises(NodeUnreachable) as caught, api.any_client():
        pytest.fail("nobody answers")
    why = "the API refuses the connection: none within 0.3 s"
    assert caught.value.message == (f"no API server answers: cp1: {why}; cp2: {why}; cp3: {why}")


HEAD_START = kubernetes_first.HEAD_START


def test_the_limits_of_three_deaf_servers_are_three_seconds() -> None:
    """The first has its head start alone, the others are asked at the same time."""
    assert HEAD_START + ssh_tunnel.OPEN_SECONDS <= 3


class Asked:
    """Nodes whose API is opened as a test says."""

    def __init__(self, well: Sequence[str], together: int = 1) -> None:
        self.well = well
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.told: list[str] = []
        self.together = threading.Barrier(together)
        self.late = threading.Event()

    @contextmanager
    def open(self, node: Node) -> Iterator[str]:
        self.opened.append(node.name)
        self.together.wait(30)
        if node.name not in self.well:
            raise NotReadable("deaf")
        try:
            yield f"client of {node.name}"
        finally:
            self.closed.append(node.name)

    def fail(self, node: Node, _error: Exception) -> None:
        self.told.append(node.name)


def test_a_first_that_answers_is_asked_alone() -> None:
    asked = Asked(["cp1", "cp2", "cp3"])
    with first_open(NODES, asked.open, asked.fail) as found:
        assert found == (NODES[0], "client of cp1")
    assert (asked.opened, asked.closed, asked.told) == (["cp1"], ["cp1"], [])


def test_those_that_say_no_at_once_are_asked_in_turn() -> None:
    asked = Asked(["cp3"])
    with first_open(NODES, asked.open, asked.fail) as found:
        assert found == (NODES[2], "client of cp3")
    assert (asked.opened, asked.told) == (["cp1", "cp2", "cp3"], ["cp1", "cp2"])


def test_while_the_first_hangs_all_the_others_are_asked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each waits until all three have been asked."""
    monkeypatch.setattr(kubernetes_first, "HEAD_START", 0.01)
    asked = Asked([], together=3)
    with first_open(NODES, asked.open, asked.fail) as found:
        assert found is None
    assert sorted(asked.told) == ["cp1", "cp2", "cp3"]


def test_a_client_that_comes_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_first, "HEAD_START", 0.01)
    won, closed = threading.Event(), threading.Event()

    @contextmanager
    def opened(node: Node) -> Iterator[str]:
        if node.name == "cp1":
            won.wait(30)
        try:
            yield node.name
        finally:
            if node.name == "cp1":
                closed.set()

    with first_open(NODES[:2], opened, lambda *_: None) as found:
        assert found == (NODES[1], "cp2")
        won.set()
        assert closed.wait(30)


def test_an_error_that_is_no_silence_is_raised() -> None:
    @contextmanager
    def opened(_node: Node) -> Iterator[Any]:
        raise ValueError("a fault of ours")
        yield

    with pytest.raises(ValueError, match="a fault of ours"):
        first_open(NODES, opened, lambda *_: None).__enter__()
