"""A command of this machine that stands still: a race is decided before the other one asks."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from appliance.model.control.lock import BEAT_SECONDS, SILENT_SECONDS

# With the beat that was due before it, shorter than the holder of a site trusts its own lock; and
# so than others take it for stale.
FROZEN_SECONDS = SILENT_SECONDS - 3 * BEAT_SECONDS


def _family(pid: int) -> set[int]:
    """A process of this machine, and all that it started and that still hangs on it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    family, more = set[int](), {pid}
    while more:
        family |= more
        more = {child for child, parent in parents.items() if parent in family} - family
    return family


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def frozen(process: subprocess.Popen[str]) -> Iterator[None]:
    """A command stands still with all that it started and all that it holds.

    For ``FROZEN_SECONDS`` at most: then it goes on, before its lock on the nodes is stale.
    """
    stopped: set[int] = set()
    assert process.poll() is None, "it ended before it could be stopped"
    limit = threading.Timer(FROZEN_SECONDS, _signal, (stopped, signal.SIGCONT))
    limit.start()
    try:
        # What is born between a look and a stop is seen at the next look.
        while more := _family(process.pid) - stopped:
            stopped |= more
            _signal(more, signal.SIGSTOP)
        assert process.poll() is None, "it ended before it could be stopped"
        yield
    finally:
        limit.cancel()
        _signal(stopped, signal.SIGCONT)
