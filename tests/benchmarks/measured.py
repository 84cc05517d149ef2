"""Run one command and measure it from outside: wall clock, processor time, memory."""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import PROC, family, status

SAMPLE_SECONDS = 0.5
KIB = 1024
MIB = 1024 * 1024
PR_SET_CHILD_SUBREAPER = 36


class CommandFailed(Exception):
    """A command that is being measured ended badly; its last lines are the message."""


@dataclass(frozen=True)
class Measured:
    """What one command took.

    Attributes:
        seconds: wall clock.
        cpu_seconds: user and system time of the process and all its descendants, those included
            that outlive it (kept SSH connections).
        peak_bytes: the most memory the process alone ever had resident.
        tree_peak_bytes: the most that it and all its descendants had at one moment; a page that
            several of them share counts once (PSS), sampled twice a second.
        load: the machine's load average when it ended: much above its cores, and times mean little.
        output: its standard output.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    tree_peak_bytes: int
    load: float
    output: str


class _Memory(threading.Thread):
    """Looks at the memory of a process and its descendants until it is told to stop."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.peak = self.tree_peak = 0
        self._root = root
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, _field(self._root, "status", "VmHWM:"))
            members = family(self._root)
            self.tree_peak = max(
                self.tree_peak, sum(_field(pid, "smaps_rollup", "Pss:") for pid in members)
            )

    def stop(self) -> None:
        self._done.set()
        self.join()


def measure(
    argv: Sequence[str], *, environment: Mapping[str, str] | None = None, whole: bool = False
) -> Measured:
    """Run a command to its end.

    Args:
        argv: the command.
        environment: added to ours.
        whole: watch its memory, and count what it leaves running. Not for a command that starts
            containers: they are no part of it.

    Raises:
        CommandFailed: it did not end with 0.
    """
    _adopt_orphans(whole)
    earlier = _orphans_cpu_seconds()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.monotonic()
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(os.environ, **(environment or {})),
        )
        watcher = _Memory(process.pid)
        if whole:
            watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if whole:
            watcher.stop()
        out.seek(0)
        err.seek(0)
        output = out.read()
        if process.returncode != 0:
            said = (output + err.read()).strip().splitlines()[-12:]
            raise CommandFailed(
                "\n".join([f"{' '.join(argv)} ended with {process.returncode}", *said])
            )
    return Measured(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime + _orphans_cpu_seconds() - earlier,
        peak_bytes=watcher.peak,
        tree_peak_bytes=watcher.tree_peak,
        load=os.getloadavg()[0],
        output=output,
    )


def _adopt_orphans(wanted: bool) -> None:
    """Become the parent of what outlives our children, so that its time can be read; or not."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(wanted)) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _orphans_cpu_seconds() -> float:
    """Processor time of the processes below us; reaps none, so that none is lost."""
    total = 0
    for pid in family(os.getpid()) - {os.getpid()}:
        total += sum(int(ticks) for ticks in status(pid)[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def nodes_cpu_seconds(names: Sequence[str]) -> float | None:
    """Processor time that containers used since they started; None where cgroups do not tell."""
    total = 0.0
    for name in names:
        found = subprocess.run(
            ["podman", "inspect", "--format", "{{.State.CgroupPath}}", name],
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = _cgroup_seconds(found.stdout.strip().lstrip("/"))
        if seconds is None:
            return None
        total += seconds
    return total


def _cgroup_seconds(path: str) -> float | None:
    if not path:
        return None
    with suppress(OSError):
        usage = Path("/sys/fs/cgroup/cpuacct", path, "cpuacct.usage")
        return int(usage.read_text()) / 1e9
    with suppress(OSError):
        for line in Path("/sys/fs/cgroup", path, "cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec"):
                return int(line.split()[1]) / 1e6
    return None


def _field(pid: int, name: str, field: str) -> int:
    """One field of a file of /proc, in bytes; 0 when the process is gone."""
    with suppress(OSError):
        for line in (PROC / str(pid) / name).read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * KIB
    return 0


def basics(done: Measured) -> dict[str, Any]:
    """Time, processor time and load of a command."""
    return {
        "seconds": round(done.seconds, 1),
        "control_cpu_seconds": round(done.cpu_seconds, 1),
        "load_at_end": round(done.load, 1),
    }


def median(values: Iterable[float]) -> float:
    """The median, to a thousandth."""
    return round(statistics.median(values), 3)
