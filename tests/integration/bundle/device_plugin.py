"""NVIDIA's device plug-in beside a kubelet of the tests, in a mount namespace of their own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 30.0
# The plug-in has the kubelet's folder compiled in: each pair gets an empty one.
APART = (
    "mkdir -p /var/lib/kubelet && mount -t tmpfs none /var/lib/kubelet"
    " && mkdir /var/lib/kubelet/device-plugins"
    ' && { "$1" <&3 & sleep 1; "$2" ${4:+--config-file "$4"} >"$3" 2>&1 & wait -n;'
    " kill $(jobs -p); }"
)


@dataclass
class Pair:
    """A kubelet and a plug-in that run: what the kubelet was told, and what the plug-in wrote."""

    log: Path
    asked: Any
    lines: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)
    told: list[dict[str, Any]] = field(default_factory=list)

    def hears(self, of: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for a line of the kubelet."""
        deadline = time.monotonic() + SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self.lines.get(timeout=left)
            except queue.Empty:
                break
            self.told.append(line)
            if of(line):
                return line
        raise AssertionError(f"{self.told}\n{self.log.read_text()[-2000:]}")

    def asks(self, resource: str, count: int) -> dict[str, Any]:
        """Ask for devices as the kubelet does: which are preferred, then for those."""
        self.asked.write(f"{resource} {count}\n")
        self.asked.flush()
        return self.hears(lambda line: "devices" in line or "error" in line)


@dataclass(frozen=True)
class Stack:
    """What was built: the plug-in, the library that it loads, and the kubelet of the tests."""

    plugin: Path
    library: Path
    kubelet: Path

    @contextmanager
    def run(self, state: Path, config: Path | None = None) -> Iterator[Pair]:
        """Start both; they end with the block."""
        log = state / "plugin.log"
        log.touch()
        words = [str(self.kubelet), str(self.plugin), str(log), str(config or "")]
        reading, writing = os.pipe()
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child",
             "bash", "-c", f"exec 3<&{reading}; {APART}", "bash", *words],
            stdout=subprocess.PIPE, text=True, pass_fds=[reading],
            env={**os.environ, "LD_LIBRARY_PATH": str(self.library.parent),
                 "STANDIN_GPU_STATE": str(state), "STANDIN_GPU_FACTS": str(state / "gpus.json")},
        )  # fmt: skip
        os.close(reading)
        assert process.stdout is not None
        pair = Pair(log, os.fdopen(writing, "w"))
        reader = threading.Thread(target=_read, args=(process.stdout, pair.lines))
        reader.start()
        try:
            yield pair
        finally:
            process.kill()
            process.wait()
            pair.asked.close()
            reader.join()
            process.stdout.close()


def _read(stream: Any, lines: queue.Queue[dict[str, Any]]) -> None:
    for line in stream:
        lines.put(json.loads(line))
