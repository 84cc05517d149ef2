"""A call over SSH ends by its deadline, whatever the other side does; real connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from appliance.adapters.ssh import call
from appliance.adapters.ssh import nodes as ssh
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import NodeUnreachable
from appliance.model.site.ssh import FIRST_OUTPUT_SECONDS
from tests import samples
from tests.ssh_server import (
    Behaviour,
    Servers,
    drips,
    drips_errors,
    is_silent,
    loses_connection,
    mark_of,
    says,
    says_for_ever,
    sends_no_status,
    servers,
)

SITE = samples.site(workers=0)


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Servers]:
    with servers(tmp_path) as made:
        yield made


def nodes_of(rack: Servers, behaviour: Behaviour) -> SshNodes:
    return SshNodes(rack.serve(SITE, {"cp1": behaviour}))


@pytest.mark.parametrize("behaviour", [drips, drips_errors, sends_no_status, is_silent])
def test_a_call_ends_by_its_deadline(rack: Servers, behaviour: Behaviour) -> None:
    nodes = nodes_of(rack, behaviour)
    began = time.monotonic()
    with pytest.raises(NodeUnreachable) as caught:
        nodes.run(nodes._site.nodes[0], "true", timeout=0.6)
    assert time.monotonic() - began < 30
    assert caught.value.answers
    assert (caught.value.logged_in, caught.value.deceives) == (True, False)
    assert "cp1" in caught.value.message
    assert "0.6 s" in caught.value.message


def test_a_node_that_lets_in_and_says_nothing_ends_long_before_a_command_may_take(
    rack: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "FIRST_OUTPUT_SECONDS", 0.6)
    nodes = nodes_of(rack, is_silent)
    began = time.monotonic()
    with pytest.raises(NodeUnreachable, match=r"no output within 0\.6 s") as caught:
        nodes.run(nodes._site.nodes[0], "true", stdin=b"x" * 100_000, timeout=60)
    assert time.monotonic() - began < 30
    assert (caught.value.logged_in, caught.value.deceives) == (True, False)


def test_a_command_that_has_begun_may_take_its_whole_time(
    rack: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(channel: paramiko.Channel, command: str) -> None:
        channel.sendall(mark_of(command))
        time.sleep(1.5)
        channel.sendall(b"done\n")
        channel.send_exit_status(0)

    monkeypatch.setattr(ssh, "FIRST_OUTPUT_SECONDS", 0.6)
    nodes = nodes_of(rack, slow)
    answer = nodes.run(nodes._site.nodes[0], "true", stdin=b"x" * 100_000, timeout=30)
    assert (answer.code, answer.output) == (0, "done\n")


def test_two_looks_at_a_silent_node_take_half_a_minute() -> None:
    assert 2 * FIRST_OUTPUT_SECONDS <= 30


def test_an_answer_without_end_is_cut_off_by_its_size(
    rack: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "MOST_BYTES", 1 << 20)
    nodes = nodes_of(rack, says_for_ever)
    with pytest.raises(NodeUnreachable, match="larger than 1024 KiB") as caught:
        nodes.run(nodes._site.nodes[0], "true", timeout=30)
    assert (caught.value.logged_in, caught.value.deceives) == (True, True)


def test_what_start_files_print_is_no_part_of_the_output(rack: Servers) -> None:
    nodes = nodes_of(rack, says(b"17 x\n", noise=b"Welcome to cp1\n42\n"))
    answer = nodes.run_as_root(nodes._site.nodes[0], "true", timeout=5)
    assert (answer.code, answer.output) == (0, "17 x\n")


def test_a_shell_that_runs_something_else_is_no_answer(rack: Servers) -> None:
    def menu(channel: object, _command: str) -> None:
        channel.sendall(b"1) reboot\n2) quit\n")  # type: ignore[attr-defined]
        channel.send_exit_status(0)  # type: ignore[attr-defined]

    nodes = nodes_of(rack, menu)
    with pytest.raises(NodeUnreachable, match="did not run the command"):
        nodes.run(nodes._site.nodes[0], "true", timeout=5)


def test_a_failure_keeps_its_code_and_its_words(rack: Servers) -> None:
    nodes = nodes_of(rack, says(b"gone\n", 3))
    answer = nodes.run(nodes._site.nodes[0], "true", timeout=5)
    assert (answer.code, answer.output) == (3, "gone\n")


def test_a_connection_that_ends_under_a_command_is_no_answer(rack: Servers) -> None:
    nodes = nodes_of(rack, loses_connection)
    with pytest.raises(NodeUnreachable, match="broke: it ended before the command did") as caught:
        nodes.run(nodes._site.nodes[0], "true", timeout=5)
    assert caught.value.logged_in


def test_a_file_is_read_again_over_a_new_connection(rack: Servers) -> None:
    asked: list[str] = []

    def once(channel: paramiko.Channel, command: str) -> None:
        asked.append(command)
        behave = loses_connection if len(asked) == 1 else says(b"content\n")
        behave(channel, command)

    nodes = nodes_of(rack, once)
    answer = nodes.read_as_root(nodes._site.nodes[0], "/etc/x", timeout=5)
    assert (answer.code, answer.output, len(asked)) == (0, "content\n", 2)


def test_a_file_is_read_twice_at_most(rack: Servers) -> None:
    nodes = nodes_of(rack, loses_connection)
    with pytest.raises(NodeUnreachable, match="broke"):
        nodes.read_as_root(nodes._site.nodes[0], "/etc/x", timeout=5)


@pytest.mark.parametrize("word", [b"SSH-2.0-x", b"hello\r\n"])
def test_a_login_that_never_ends_is_ended(
    rack: Servers, monkeypatch: pytest.MonkeyPatch, word: bytes
) -> None:
    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(word)
            time.sleep(0.05)

    monkeypatch.setattr(ssh, "LOGIN_SECONDS", 0.8)
    site = rack.serve(SITE, {}, raw={"cp1": drip})
    began = time.monotonic()
    with pytest.raises(NodeUnreachable):
        SshNodes(site).run(site.nodes[0], "true")
    assert time.monotonic() - began < 30
