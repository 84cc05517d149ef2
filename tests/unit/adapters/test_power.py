"""Whether anything answers at a node's address: also a refusal is an answer."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.adapters.ssh.power import SshPower
from appliance.errors import NodeUnreachable

NODE: Any = SimpleNamespace(name="w1", ip="127.0.0.1")


def power(port: int = 22, *, jump_host: str | None = None, run: Any = None) -> SshPower:
    ssh = SimpleNamespace(port=port, jump_host=jump_host)
    site: Any = SimpleNamespace(settings=SimpleNamespace(ssh=ssh))
    nodes: Any = SimpleNamespace(run=run)
    return SshPower(site, nodes)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_an_sshd_that_says_nothing_is_a_machine_that_runs(listener: socket.socket) -> None:
    assert power(listener.getsockname()[1]).answers(NODE)


def test_an_sshd_that_ended_early_is_a_machine_that_runs(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert power(port).answers(NODE)


@pytest.mark.parametrize(
    "error", [TimeoutError(), OSError(errno.EHOSTUNREACH, "No route"), OSError(errno.ENETUNREACH)]
)
def test_nothing_answers_where_no_packet_comes_back(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", silent)
    assert not power().answers(NODE)


@pytest.mark.parametrize("answers", [True, False])
def test_behind_a_jump_host_what_broke_off_was_alive(answers: bool) -> None:
    def run(*_: object, **__: object) -> None:
        raise NodeUnreachable("w1: the SSH connection broke off", answers=answers)

    assert power(jump_host="10.0.0.9", run=run).answers(NODE) is answers
    assert power(jump_host="10.0.0.9", run=lambda *_, **__: None).answers(NODE)
