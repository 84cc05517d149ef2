"""Nodes whose folder of backups is a folder here: scripts run in a shell, and answers may lie."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance.adapters.backup import on_nodes
from appliance.adapters.ssh.call import Answer
from appliance.errors import NodeUnreachable


class FolderNodes:
    """Nodes by SSH, as far as their backups are read.

    Attributes:
        asked: the node of each stream.
        silent: these do not answer.
        breaks: how often a stream breaks off after a piece.
        endless: what comes after each stream, for ever.
        flips: turns a bit of what is read.
        listing: what a node says in place of its list.
    """

    def __init__(self, folders: dict[str, Path]) -> None:
        self.folders = folders
        self.asked: list[str] = []
        self.silent: set[str] = set()
        self.breaks = 0
        self.endless = b""
        self.flips = False
        self.listing = ""

    def _done(self, node: Any, script: str) -> subprocess.CompletedProcess[bytes]:
        folder = self.folders.get(node.name, Path("/nowhere/at/all"))
        here = script.replace(on_nodes.FOLDER, str(folder))
        return subprocess.run(["sh", "-c", here], capture_output=True, check=False, timeout=20)

    def run_as_root(self, node: Any, script: str, *, timeout: float) -> Answer:
        if node.name in self.silent:
            raise NodeUnreachable(f"{node.name}: no answer within {timeout:.0f} s")
        done = self._done(node, script)
        return Answer(done.returncode, self.listing or done.stdout.decode(), "")

    @contextmanager
    def stream_as_root(
        self, node: Any, script: str, pieces: Sequence[bytes], **limits: float
    ) -> Iterator[Iterator[bytes]]:
        assert set(limits) == {"silence", "seconds", "work"}
        assert list(pieces) == []
        self.asked.append(node.name)
        yield self._output(node, script)

    def _output(self, node: Any, script: str) -> Iterator[bytes]:
        done = self._done(node, script)
        content = done.stdout
        if self.flips and content:
            content = bytes([content[0] ^ 1]) + content[1:]
        yield b""
        for at in range(0, len(content), 50_000):
            yield content[at : at + 50_000]
            if self.breaks:
                self.breaks -= 1
                raise NodeUnreachable(f"{node.name}: the connection broke", logged_in=True)
        while self.endless:
            yield self.endless
        if done.returncode:
            raise NodeUnreachable(f"{node.name}: exit code {done.returncode}", logged_in=True)
