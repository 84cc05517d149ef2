"""Why nodes cannot be reached: what a library or ssh says becomes one cause, named and counted."""

from __future__ import annotations

import paramiko
import pytest

from appliance.adapters.ssh.login_failure import login_failure
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Site
from appliance.model.site.ssh import copy_key_command, jump_login_command
from appliance.model.state.nodes.unreachable import (
    NOT_SSH,
    grouped,
    headline,
    in_plain_words,
    way_through,
)
from appliance.model.state.observed import Fault, Look
from appliance.workflows.session.survey import require_all
from tests import samples

JUMP = "ops@gate.rack.test"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Error reading SSH protocol banner", NOT_SSH),
        ("Error reading SSH protocol banner[Errno 104] Connection reset by peer", NOT_SSH),
        ("Indecipherable protocol version (HTTP/1.1 400 Bad Request)", NOT_SSH),
        ("Incompatible ssh peer (no acceptable kex algorithm)", "no algorithm in common"),
        ("", "it closed the connection during the login"),
        ("Network is unreachable", "Network is unreachable"),
    ],
)
def test_words_of_the_library_become_plain_words(text: str, words: str) -> None:
    assert words in in_plain_words(text)


@pytest.mark.parametrize(
    ("said", "cause", "at_jump_host"),
    [
        ("ssh: connect to host gate.rack.test port 22: No route to host\r\n",
         f"the jump host {JUMP} does not answer: no route to host", True),
        ("Connection timed out during banner exchange\nConnection to 198.51.100.9 timed out",
         f"the jump host {JUMP} does not answer: connection timed out", True),
        ("ssh: Could not resolve hostname gate.rack.test: Name or service not known",
         f"the jump host {JUMP}: its name does not resolve", True),
        ("ops@gate.rack.test: Permission denied (publickey,password).",
         f"the jump host {JUMP} refused the login", True),
        ("No ED25519 host key is known for gate.rack.test and you asked for strict checking.",
         f"the jump host {JUMP}: its host key is not in known_hosts, or differs", True),
        ("Host key verification failed.",
         f"the jump host {JUMP}: its host key is not in known_hosts, or differs", True),
        ("channel 0: open failed: connect failed: No route to host\nstdio forwarding failed",
         "no route to host", False),
        ("channel 0: open failed: administratively prohibited: open failed",
         "administratively prohibited: open failed", False),
    ],
)  # fmt: skip
def test_what_ssh_says_tells_the_jump_host_from_the_node(
    said: str, cause: str, at_jump_host: bool
) -> None:
    way = way_through(JUMP, said)
    assert way is not None
    assert (way.cause, way.at_jump_host) == (cause, at_jump_host)


def test_words_of_ssh_that_are_not_known_decide_nothing() -> None:
    assert way_through(JUMP, "Warning: something else") is None
    assert way_through(JUMP, "") is None


def fault(name: str, cause: str) -> Fault:
    return Fault(name, f"{name} (198.18.7.1): {cause}", f"ask {name}", cause=cause)


ROUTE, KEY = "no SSH on port 22: No route to host", "authentication failed for user ubuntu"


@pytest.mark.parametrize(
    ("faults", "asked", "said"),
    [
        ([fault("w1", ROUTE)], 4, f"w1 (198.18.7.1): {ROUTE}"),
        ([fault(name, ROUTE) for name in ("cp1", "w1", "w2", "w3")], 4,
         f"4 of 4 nodes cannot be reached ({ROUTE})"),
        ([fault("w1", KEY), fault("w2", ROUTE), fault("w3", ROUTE)], 5,
         f"3 of 5 nodes cannot be reached (2: {ROUTE}; 1: {KEY})"),
        ([Fault("w1", "w1: the probe exited with 1: x", "h"),
          Fault("w2", "w2: the probe exited with 2: y", "h")], 2,
         "2 of 2 nodes cannot be reached (1: the probe exited with 1: x; "
         "1: the probe exited with 2: y)"),
    ],
)  # fmt: skip
def test_the_headline_counts_nodes_and_names_the_causes(
    faults: list[Fault], asked: int, said: str
) -> None:
    assert headline(faults, asked) == said


def test_fifty_nodes_with_one_cause_have_one_hint() -> None:
    faults = tuple(fault(f"w{n}", ROUTE) for n in range(50))
    (group,) = grouped(faults)
    assert group.nodes == tuple(f"w{n}" for n in range(50))
    assert group.sentence.startswith(f"50 nodes, {ROUTE}: w0, w1, ")
    assert group.hint == "ask w0"
    with pytest.raises(NodeUnreachable) as caught:
        require_all(Look({}, faults))
    assert caught.value.message == f"50 of 50 nodes cannot be reached ({ROUTE})"
    assert caught.value.details == (f"nodes: {', '.join(group.nodes)}",)


def test_equal_reasons_are_one_cause_where_none_is_named() -> None:
    (group,) = grouped(
        [Fault("w1", "w1 (198.18.7.1): off", "h"), Fault("w2", "w2 (198.18.7.2): off", "i")]
    )
    assert (group.cause, group.nodes, group.hint) == ("off", ("w1", "w2"), "h")


def test_each_further_cause_has_its_hint() -> None:
    faults = (fault("w1", KEY), fault("w2", ROUTE), fault("w3", ROUTE))
    with pytest.raises(NodeUnreachable) as caught:
        require_all(Look({}, faults))
    assert caught.value.hint == "ask w2"
    assert caught.value.details == (
        f"2 nodes, {ROUTE}: w2, w3",
        f"w1 (198.18.7.1): {KEY}  hint: ask w1",
    )


def site(jump_host: str | None = None) -> Site:
    more = {"jump_host": jump_host} if jump_host else {}
    return samples.site(ssh={"user": "ubuntu", "private_key": "~/.ssh/rack", "port": 2222, **more})


def test_a_jump_host_that_does_not_answer_is_blamed_and_not_the_node() -> None:
    rack = site(JUMP)
    said = "ssh: connect to host gate.rack.test port 22: Connection refused"
    error = paramiko.SSHException("Error reading SSH protocol banner")
    one, other = (login_failure(rack, node, error, said) for node in rack.nodes[:2])
    assert one.cause == other.cause == f"the jump host {JUMP} does not answer: connection refused"
    assert one.hint == f"test the jump host: ssh -i ~/.ssh/rack {JUMP} true"
    assert not one.answers


def test_silence_behind_a_jump_host_is_told_without_words_of_the_library() -> None:
    rack = site(JUMP)
    error = paramiko.SSHException("Error reading SSH protocol banner")
    found = login_failure(rack, rack.nodes[0], error)
    assert "banner" not in found.message
    assert f"no answer through the jump host {JUMP}" in found.message


def test_a_port_that_speaks_something_else_is_told_apart_from_a_node_that_is_off() -> None:
    rack = site()
    error = paramiko.SSHException("Error reading SSH protocol banner")
    found = login_failure(rack, rack.nodes[0], error)
    assert found.message.endswith(f"no SSH on port 2222: {NOT_SSH}")
    assert found.hint is not None
    assert "powered on" not in found.hint
    assert found.answers


@pytest.mark.parametrize(
    ("jump_host", "command"),
    [
        (None, "ssh-copy-id -i ~/.ssh/rack.pub -p 2222 ubuntu@198.18.7.11"),
        (JUMP, f"ssh-copy-id -i ~/.ssh/rack.pub -p 2222 -o ProxyJump={JUMP} ubuntu@198.18.7.11"),
    ],
)
def test_the_key_is_copied_by_its_name_and_the_sites_way(
    jump_host: str | None, command: str
) -> None:
    rack = site(jump_host)
    assert copy_key_command(rack, rack.nodes[0]) == command
    found = login_failure(rack, rack.nodes[0], paramiko.AuthenticationException("no"))
    assert found.hint == f"install the public key there: {command}"


def test_without_a_jump_host_there_is_no_command_for_one() -> None:
    assert jump_login_command(site()) == ""
    assert jump_login_command(site("ops@gate:2200")) == "ssh -p 2200 -i ~/.ssh/rack ops@gate true"
