"""Servers on loopback for a site that was written at the desk: silent, bare or refusing nodes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko

from appliance.model.site.settings import Node
from tests import samples
from tests.ssh_server import Servers, is_silent, says, servers
from tests.unit.preflight import machines

NAMES = ("cp1", "w1", "w2")
# The site of README, with loopback in place of its network: nothing else may be asked from here.
INIT = (
    "appliance site init {site} --domain {domain} --control-plane cp1=127.0.7.1/24"
    " --cpu-worker w1=127.0.7.2/24 --cpu-worker w2=127.0.7.3/24 --new-vault-password"
)


class Rack:
    """The nodes of a site.

    Attributes:
        servers: what listens at their addresses.
        silent: nodes whose shell never answers.
    """

    def __init__(self, folder: Path, found: Servers) -> None:
        self.servers = found
        self.silent: set[str] = set()
        site = samples.site()
        self._site = found.serve(site, dict.fromkeys(NAMES, self._behave))
        self._bare = {node.ip: _bare(node) for node in self._site.nodes}
        self.key = folder / "id_ecdsa"
        self.known_hosts = folder / "known_hosts"

    def settings(self) -> str:
        """What site.yml says of the way to them."""
        port = self._site.settings.ssh.port
        return f"ssh: {{port: {port}, private_key: {self.key}, become: false}}"

    def _behave(self, channel: paramiko.Channel, command: str) -> None:
        """Take the probe, and say what a bare node says; it has no file of ours."""
        listening = channel.get_transport().sock
        assert isinstance(listening, socket.socket)
        address = listening.getsockname()[0]
        name = next(node.name for node in self._site.nodes if node.ip == address)
        if name in self.silent:
            is_silent(channel, command)
        if "memfd_create" not in command:
            says(b"", int("manifest.json" in command))(channel, command)
            return
        while channel.recv(65536):
            pass
        now = time.time()
        facts = self._bare[address] | {"taken_at": now}
        facts["clock"] = facts["clock"] | {"epoch": now}
        says(json.dumps(facts).encode())(channel, command)


def _bare(node: Node) -> dict[str, Any]:
    """What the probe says of a machine that the factory gave Ubuntu."""
    found = machines.bare(node)
    found["os"] |= {"id": "ubuntu", "version_id": "20.04", "codename": "focal"}
    refused = {"ok": False, "code": None, "error": "connection refused"}
    for service in ("registry", "artifacts"):
        found[service]["serving"] = refused
    return found


@contextmanager
def rack(folder: Path) -> Iterator[Rack]:
    """Servers that end with the block; their keys are in the folder, which is made."""
    folder.mkdir()
    with servers(folder) as found:
        yield Rack(folder, found)
