"""A watch over process lists: every argument list of this command's children and of a lab's nodes.

It looks fifty times a second, so what lives for less than that may go unseen; whatever a person
could read with ``ps`` is seen. A node's containers are told by their control group, what runs on
the control host by a mark that children inherit.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
import uuid
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
TICK_SECONDS = 0.02
# A process may execute another program soon after its birth: so long it is read at every look.
YOUNG_SECONDS = 1.0
AGAIN_SECONDS = 5.0
MARK = "WATCHED_BY"
HERE = "control host"
JOIN = "run/appliance/kubeadm-join.yaml"
TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
CERTIFICATE_KEY = re.compile(r"certificateKey: \"?([0-9a-f]{64})\b")
_CONTAINER = re.compile(r"libpod-([0-9a-f]{64})")


@dataclass
class Seen:
    """What the watch saw so far.

    Attributes:
        argv: where -> argument lists, words joined by blanks.
        tokens: bootstrap tokens that stood in a node's configuration of a join.
        certificate_keys: likewise.
        open_files: files with secrets that others than their owner could read.
    """

    argv: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    tokens: set[str] = field(default_factory=set)
    certificate_keys: set[str] = field(default_factory=set)
    open_files: set[str] = field(default_factory=set)


class ProcessWatch(threading.Thread):
    """Looks until it is told to stop.

    Args:
        lab: whose nodes are watched; they may come and go.
    """

    def __init__(self, lab: str) -> None:
        super().__init__(daemon=True)
        self.seen = Seen()
        self.looks = 0
        self._lab = lab
        self._mark = uuid.uuid4().hex
        self._end = threading.Event()
        self._nodes: dict[str, tuple[str, int]] = {}
        self._known: dict[int, tuple[str | None, float]] = {}

    def __enter__(self) -> ProcessWatch:
        os.environ[MARK] = self._mark
        threading.Thread(target=self._find_nodes, daemon=True).start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()
        os.environ.pop(MARK, None)

    def run(self) -> None:
        again = 0.0
        # On a busy machine it would else look too seldom.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        while not self._end.wait(TICK_SECONDS):
            now = time.monotonic()
            everybody = now >= again
            if everybody:
                again = now + AGAIN_SECONDS
            self._look(now, everybody=everybody)
            self._read_joins()
            self.looks += 1

    def _find_nodes(self) -> None:
        """Beside the looks: on a busy machine podman takes longer than a process lives."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                self._nodes = nodes_of(self._lab)
            if self._end.wait(AGAIN_SECONDS):
                return

    def _look(self, now: float, *, everybody: bool) -> None:
        pids = {int(name) for name in os.listdir(PROC) if name.isdigit()}  # noqa: PTH208 - quick
        for pid in self._known.keys() - pids:
            del self._known[pid]
        for pid in pids:
            where, born = self._known.get(pid, (None, now))
            if pid in self._known and not everybody and now - born > YOUNG_SECONDS:
                continue
            with suppress(OSError):
                where = where or self._where(pid)
                self._known[pid] = (where, born)
                words = (PROC / str(pid) / "cmdline").read_bytes() if where else b""
                if where and words:
                    self.seen.argv[where].add(words.replace(b"\0", b" ").decode(errors="replace"))

    def _where(self, pid: int) -> str | None:
        """The node it runs on, the control host when it is a child of ours, or None."""
        for container in _CONTAINER.findall((PROC / str(pid) / "cgroup").read_text())[:1]:
            return self._nodes.get(container, (None, 0))[0]
        environment = (PROC / str(pid) / "environ").read_bytes()
        return HERE if f"{MARK}={self._mark}".encode() in environment.split(b"\0") else None

    def _read_joins(self) -> None:
        """Keep what a join needs: it is gone when the join has ended."""
        for name, pid in self._nodes.values():
            path = PROC / str(pid) / "root" / JOIN
            with suppress(OSError):
                text, mode = path.read_text(), path.stat().st_mode
                self.seen.tokens |= set(TOKEN.findall(text))
                self.seen.certificate_keys |= set(CERTIFICATE_KEY.findall(text))
                if mode & 0o077:
                    self.seen.open_files.add(f"{name}: /{JOIN}: {mode & 0o777:o}")


def nodes_of(lab: str) -> dict[str, tuple[str, int]]:
    """Container -> (node, its first process) of a lab."""
    done = subprocess.run(
        ["podman", "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}} {{.Pid}}",
         "--filter", f"name=^{lab}-(cp|w)[0-9]+$"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: (row[1], int(row[2])) for row in rows if len(row) == 3}
