"""A worker whose SSH server lies: real servers on loopback, the real probe round and plan.

It answers slowly, endlessly, with noise, without an exit status, or with any value at any leaf of
its document. The others are looked at all the same, within the deadline; it is a fault by its own
name, an install goes on without it, and it gets nothing but the probe.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import paramiko
import pytest

from appliance.adapters.ssh import call
from appliance.adapters.ssh import nodes as ssh
from appliance.adapters.ssh.nodes import SshNodes
from appliance.model.state.cluster.cluster import NoCluster
from appliance.workflows.session.survey import survey
from tests import samples, ssh_server
from tests.ssh_server import Behaviour

SITE = samples.site(workers=2)
DEADLINE_SECONDS = 3.0
DEEP = b'{"schema": 1, "nics": ' + b"[" * 50_000
TEMPLATE = b'{"schema": 1, "dmi": {"serial": "{{ vault_site_ca_key }}"}}'


def honest(name: str) -> Behaviour:
    """Takes the probe, and says what a bare node says."""
    document = json.dumps(samples.bare(SITE.node(name))).encode()

    def behave(channel: paramiko.Channel, command: str) -> None:
        while channel.recv(65536):
            pass
        ssh_server.says(document)(channel, command)

    return behave


def banner_only(channel: paramiko.Channel, _command: str) -> None:
    """A shell that prints its greeting, and runs something of its own."""
    channel.sendall(b"Welcome\n42\n{}\n")
    channel.send_exit_status(0)


LIES: dict[str, Behaviour] = {
    "for ever": ssh_server.says_for_ever,
    "a byte now and then": ssh_server.drips,
    "errors now and then": ssh_server.drips_errors,
    "no exit status": ssh_server.sends_no_status,
    "silence": ssh_server.is_silent,
    "a banner": banner_only,
    "no object": ssh_server.says(b"[]"),
    "too deep": ssh_server.says(DEEP),
    "a newer schema": ssh_server.says(b'{"schema": 7}'),
    "a template": ssh_server.says(TEMPLATE),
    "noise before nothing": ssh_server.says(b"", noise=b"x" * 100_000),
}


class Api:
    """There is no cluster yet."""

    def read(self, _node_facts: object) -> NoCluster:
        return NoCluster()


@pytest.mark.parametrize("lie", list(LIES))
def test_a_worker_that_lies_stops_no_command_on_the_others(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "PROBE_SECONDS", DEADLINE_SECONDS)
    monkeypatch.setattr(call, "MOST_BYTES", 2 << 20)
    with ssh_server.servers(tmp_path) as rack:
        behaviours = {"cp1": honest("cp1"), "w1": LIES[lie], "w2": honest("w2")}
        site = rack.serve(SITE, behaviours)
        nodes, began = SshNodes(site), time.monotonic()
        try:
            desired = samples.desired(site)
            found = survey(desired, nodes, Api(), lambda *_: ())
        finally:
            nodes.close()
        assert time.monotonic() - began < 4 * DEADLINE_SECONDS
        assert set(found.observed.node_facts) == {"cp1", "w2"}
        (left,) = found.plan.left_out
        assert left.node == "w1"
        assert "vault" not in left.reason
        assert all("w1" not in step.nodes for step in found.plan.steps)
        # What it was sent is the probe, once a look, and nothing else.
        assert all("memfd_create" in command for command in rack.asked["w1"])


def test_a_connection_that_another_call_ended_is_made_once_more(tmp_path: Path) -> None:
    one = samples.site(workers=0)
    with ssh_server.servers(tmp_path) as rack:
        site = rack.serve(one, {"cp1": ssh_server.says(b"here")})
        nodes, node = SshNodes(site), site.node("cp1")
        try:
            shared = nodes._transport(node)
            shared.close()
            assert nodes.run(node, "true").output == "here"
            assert nodes._transport(node) is not shared
        finally:
            nodes.close()
