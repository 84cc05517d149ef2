"""A command of this machine that stands still: a race is decided before the other one asks."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from appliance.model.control.lock import BEAT_SECONDS, SILENT_SECONDS
from tests.processes import family

# With the beat that was due before it, shorter than the holder of a site trusts its own lock; and
# so than others take it for stale.
FROZEN_SECONDS = SILENT_SECONDS - 3 * BEAT_SECONDS


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
        while more := family(process.pid) - stopped:
            stopped |= more
            _signal(more, signal.SIGSTOP)
        assert process.poll() is None, "it ended before it could be stopped"
        yield
    finally:
        limit.cancel()
        _signal(stopped, signal.SIGCONT)
