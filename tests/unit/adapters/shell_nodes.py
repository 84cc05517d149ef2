"""Nodes that are folders of this machine: the scripts of adapters, run by a real shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node


class ShellNodes(SshNodes):
    """Each node is a folder; its ``/var/lib/appliance`` lies there.

    Attributes:
        away: names of nodes that do not answer.
        asked: name of the node of each call that came through, in order.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.away: set[str] = set()
        self.asked: list[str] = []

    def state(self, node: str) -> Path:
        """What is ``/var/lib/appliance`` on a node."""
        return self.root / node / "appliance"

    def run_as_root(
        self,
        node: Node,
        script: str,
        *,
        stdin: bytes = b"",
        timeout: float = 60,
        or_self: bool = False,  # noqa: ARG002
    ) -> Answer:
        if node.name in self.away:
            raise NodeUnreachable(f"{node.name}: no answer")
        self.asked.append(node.name)
        mine = script.replace("/var/lib/appliance", str(self.state(node.name)))
        done = subprocess.run(
            ["sh", "-c", mine], input=stdin, capture_output=True, timeout=timeout, check=False
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
