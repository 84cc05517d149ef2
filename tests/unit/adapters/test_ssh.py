"""Connections to nodes: one each, whoever asks first; and what is done while nodes answer."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace as Thing
from typing import cast

import paramiko
import pytest

from appliance.adapters.ssh import nodes as ssh
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.login_failure import login_failure
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Fault
from tests import samples

SITE = samples.site()


class Slow(SshNodes):
    """Connects as slowly as a node that is far away."""

    def __init__(self) -> None:
        super().__init__(SITE)
        self.made: list[str] = []

    def _connect(self, node: Node) -> paramiko.SSHClient:
        self.made.append(node.name)
        time.sleep(0.1)
        transport = Thing(is_active=lambda: True)
        return cast(paramiko.SSHClient, Thing(get_transport=lambda: transport))


def test_two_that_ask_at_once_share_one_connection() -> None:
    nodes = Slow()
    first, second = SITE.nodes[:2]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(nodes._transport, [first, second, first, second]))
    assert sorted(nodes.made) == sorted([first.name, second.name])
    assert found[0] is found[2] is not found[1]


def test_what_is_done_meanwhile_is_done_while_nodes_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_work = threading.Event()

    def answers(_self: SshNodes, node: Node) -> NodeFacts | Fault:
        assert at_work.wait(10), "nobody did anything meanwhile"
        return Fault(node.name, "x", "y")

    monkeypatch.setattr(SshNodes, "_read_facts", answers)
    nodes = SshNodes(SITE, meanwhile=at_work.set)
    assert len(nodes.look(SITE.nodes).faults) == len(SITE.nodes)


def test_ctrl_c_closes_the_connections_and_waits_for_no_answer() -> None:
    closed = threading.Event()

    class Hanging(SshNodes):
        def _read_facts(self, _node: Node) -> Fault:
            assert closed.wait(20)
            return Fault("w1", "closed", "")

        def close(self) -> None:
            closed.set()

    def interrupted() -> None:
        raise KeyboardInterrupt

    site = samples.site()
    nodes = Hanging(site, meanwhile=interrupted)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        nodes.look(site.nodes)
    assert closed.is_set()
    assert time.monotonic() - began < 5


def test_a_connection_that_fails_lets_the_next_one_try() -> None:
    nodes = Slow()
    node, connect = SITE.nodes[0], nodes._connect

    def fails(node: Node) -> paramiko.SSHClient:
        raise NodeUnreachable(node.name)

    nodes._connect = fails  # type: ignore[method-assign]
    with pytest.raises(NodeUnreachable):
        nodes._transport(node)
    nodes._connect = connect  # type: ignore[method-assign]
    assert nodes._transport(node)


def no_connections(error: OSError) -> Exception:
    return paramiko.ssh_exception.NoValidConnectionsError({("198.18.0.9", 22): error})


KEY = paramiko.ECDSAKey.generate()


@pytest.mark.parametrize(
    ("error", "alive"),
    [
        (TimeoutError("timed out"), False),
        (OSError(113, "No route to host"), False),
        (no_connections(OSError(113, "No route to host")), False),
        (no_connections(TimeoutError("timed out")), False),
        (no_connections(ConnectionRefusedError(111, "Connection refused")), True),
        (ConnectionResetError(104, "Connection reset by peer"), True),
        (paramiko.SSHException("Error reading SSH protocol banner"), True),
        (EOFError(), True),
        (paramiko.AuthenticationException("no"), True),
        (paramiko.BadHostKeyException("w1", KEY, KEY), True),
        (paramiko.SSHException("Server 'w1' not found in known_hosts"), True),
    ],
    ids=range(11),
)
def test_a_machine_that_says_no_is_alive(error: Exception, alive: bool) -> None:
    class Fails(SshNodes):
        def _connect(self, node: Node) -> paramiko.SSHClient:
            raise login_failure(SITE, node, error)

    node = SITE.nodes[0]
    (fault,) = Fails(SITE).look([node]).faults
    assert fault.answers is alive
    assert bool(Fails(SITE).look([node]).alive(node.name)) is alive


def test_behind_a_jump_host_only_an_answer_is_a_life_sign() -> None:
    site = samples.site(ssh={"user": "appliance", "jump_host": "gate.rack.test"})
    node = site.nodes[0]
    assert not login_failure(site, node, EOFError()).answers
    assert login_failure(site, node, paramiko.AuthenticationException()).answers


def test_a_node_whose_probe_fails_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(1, "", "mktemp: failed to create file: No space left on device")
    monkeypatch.setattr(SshNodes, "run", lambda *_words, **_more: answer)
    (fault,) = SshNodes(SITE).look(SITE.nodes[:1]).faults
    assert fault.answers
    assert "No space left" in fault.reason


def test_behind_a_jump_host_few_log_in_at_once_and_who_is_dropped_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = samples.site(workers=30, ssh={"user": "appliance", "jump_host": "gate.rack.test"})
    at_work: list[int] = [0]
    most, drops = [0], iter([True, True])
    guard = threading.Lock()

    class Client:
        def __getattr__(self, _name: str) -> object:
            return lambda *_words, **_more: None

        def connect(self, *_words: object, **_more: object) -> None:
            with guard:
                at_work[0] += 1
                most[0] = max(most[0], at_work[0])
                dropped = next(drops, False)
            time.sleep(0.005)
            with guard:
                at_work[0] -= 1
            if dropped:
                raise paramiko.SSHException("Error reading SSH protocol banner")

    monkeypatch.setattr(paramiko, "SSHClient", Client)
    monkeypatch.setattr(ssh, "load", lambda *_: None)
    monkeypatch.setattr(ssh, "check_private_key", lambda *_: None)
    monkeypatch.setattr(ssh, "RETRY_PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(paramiko, "ProxyCommand", lambda *_: None)
    nodes = SshNodes(site)
    with ThreadPoolExecutor(30) as pool:
        made = list(pool.map(nodes._connect_patiently, site.nodes))
    assert len(made) == len(site.nodes)
    assert next(drops, False) is False, "the premise: some were dropped"
    assert most[0] <= 8
