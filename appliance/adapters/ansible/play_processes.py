"""The processes of playbook runs: marked in their environment; none outlives its command.

A playbook runs in its own session: neither Ctrl-C nor the death of the command reaches it. While
it runs, a guard reads a pipe from the command. If the pipe closes without a message, the command
was killed, and the guard ends all processes with the command's mark. This file is also the guard's
program: it uses only the standard library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

# The site, and the process that started the playbook.
MARK = "APPLIANCE_PLAY_OF"
STARTED_BY = "APPLIANCE_PLAY_BY"
PATIENCE_SECONDS = 15.0
_DONE = b"done"


@contextmanager
def ending_with_us(site: str) -> Iterator[Mapping[str, str]]:
    """Yield the environment of a playbook run that ends when this process ends, in any way."""
    ours = f"{os.getpid()}-{time.monotonic_ns()}"
    with subprocess.Popen(  # noqa: S603 - this file, by this interpreter
        [sys.executable, "-I", "-S", __file__, f"{STARTED_BY}={ours}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        # A signal to our process group must not end the guard.
        start_new_session=True,
    ) as guard:
        try:
            yield {MARK: site, STARTED_BY: ours}
        except BaseException:
            end_marked(f"{STARTED_BY}={ours}")
            raise
        finally:
            with suppress(OSError):
                guard.communicate(_DONE)


def end_leftovers(site: str | os.PathLike[str]) -> int:
    """End playbook runs that an earlier, killed command of this site left; return their number."""
    return end_marked(f"{MARK}={os.fspath(site)}")


def end_marked(mark: str) -> int:
    """End every process that has ``mark`` in its environment; return their number."""
    processes = _marked(mark.encode())
    if not processes:
        return 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _marked(mark.encode()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while _marked(mark.encode()) and time.monotonic() < deadline:
            time.sleep(0.05)
    return len(processes)


def _marked(mark: bytes) -> list[int]:
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                environment = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if mark in environment and state != "Z":
                    pids.append(int(entry.name))
    return pids


def _guard(mark: str) -> None:
    """Wait for the command's message; without it, end the processes it started."""
    if sys.stdin.buffer.read() != _DONE:
        end_marked(mark)


if __name__ == "__main__":
    _guard(sys.argv[1])
