"""The program of the unit: start the loads, sample every minute, keep the state, end in time."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from ..inspection.system import identity
from ..inspection.trials import PODS, available, require_no_pods
from ..source import Machine, Request, Source
from .board import Board
from .counters import Heat, KernelLog, Sample, sample
from .order import KIND, MOST_SAMPLE_BYTES, SAMPLES, SCHEMA, STATE, Order, read, write
from .work import Load, loads

BOOT = "/proc/sys/kernel/random/boot_id"
PR_SET_PDEATHSIG = 1
MOST_FAULTS = 20
# More than this after a sample was due, and the machine hung.
LATE = 1.5
# A gauge of one sample, whose sum is kept.
GAUGE = ".slowed"


class BurnIn:
    """One burn-in, in its folder.

    Args:
        folder: with the order.
        samples: returns one sample.
        log: of the kernel.
        pods: returns how many pods this node carries.
    """

    def __init__(
        self,
        folder: Path,
        samples: Optional[Callable[[], Sample]] = None,
        log: Optional[KernelLog] = None,
        pods: Optional[Callable[[], int]] = None,
    ) -> None:
        self._folder, self._order = folder, read(folder)
        self._sample = samples or (lambda: sample(_source("burn-in")))
        self._log = log or KernelLog()
        self._pods = pods or (lambda: len(_source("burn-in").listed(PODS) or ()))
        self._daemons = self._pods() if self._order.maintained else 0
        self._board = Board()
        self._running: Dict[int, str] = {}
        self._stopped = False
        self._began = time.monotonic()
        self._due = self._began
        self.state: Dict[str, Any] = _state(self._order)

    def run(self) -> None:
        """Load this machine until the time is over, or the unit is stopped."""
        signal.signal(signal.SIGTERM, self._stop)
        try:
            self._start()
            while not self._stopped and self._left() > 0:
                self._look()
                self._wait()
            self._look()
            ended = "stopped" if self._stopped and self._left() > 1 else "done"
        except Exception as error:  # whatever it is, the record says so
            ended = "failed: %s: %s" % (type(error).__name__, error)
        self._kill()
        self.state["ended"], self.state["ended_at"] = ended[:300], round(time.time(), 1)
        self._keep()

    def _stop(self, *_: Any) -> None:
        self._stopped = True

    def _left(self) -> float:
        return self._order.seconds - (time.monotonic() - self._began)

    def _start(self) -> None:
        source = _source("burn-in")
        if not self._order.maintained:
            require_no_pods(source)
        unknown: Dict[str, str] = self.state["unknown"]
        found = loads(self._order, self._folder, available(source), self._board, unknown)
        self._keep()
        for load in found:
            self._running[_fork(load)] = load.part

    def _look(self) -> None:
        """Take a sample, and keep the state.

        Raises:
            OSError: pods came: the node was installed, or returned to service.
        """
        pods = self._pods()
        if pods > self._daemons:
            raise OSError("%d pods came to the node, which get it now" % (pods - self._daemons))
        now = time.monotonic()
        # The first has nothing before it.
        if self.state["samples"] and now - self._due > LATE * self._order.sample_seconds:
            self.state["missed"] += int((now - self._due) / self._order.sample_seconds)
        self._due = now + self._order.sample_seconds
        taken = self._sample()
        self._log.read()
        counters = dict(taken.counters)
        counters.update({"kernel." + name: count for name, count in self._log.counts.items()})
        self._count(counters)
        self._warm(taken.heat)
        self._missing()
        self.state["work"] = self._board.totals()
        self.state["samples"] += 1
        self.state["log"] = self._log.latest
        self._append(counters, taken.heat)
        self._keep()

    def _count(self, counters: Dict[str, int]) -> None:
        kept: Dict[str, List[int]] = self.state["counters"]
        for name, value in counters.items():
            if name.endswith(GAUGE):
                kept[name] = [0, kept.get(name, [0, 0])[1] + value]
            else:
                kept[name] = [kept[name][0] if name in kept else value, value]

    def _warm(self, heat: Dict[str, Heat]) -> None:
        kept: Dict[str, List[Optional[float]]] = self.state["highest"]
        for name, one in heat.items():
            before = kept.get(name)
            highest = one.value if before is None else max(before[0] or 0.0, one.value)
            kept[name] = [highest, one.critical]

    def _missing(self) -> None:
        """Workers that ended by themselves: the kernel killed them, or they failed."""
        # systemd ends them all at once.
        while self._running and not self._stopped:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            part = self._running.pop(pid, "unknown")
            how = "signal %d" % (status & 0x7F) if status & 0x7F else "exit %d" % (status >> 8)
            if len(self.state["faults"]) < MOST_FAULTS:
                self.state["faults"].append("a load of %s ended by %s" % (part, how))

    def _append(self, counters: Dict[str, int], heat: Dict[str, Heat]) -> None:
        line = {
            "at": round(time.time(), 1),
            "heat": {name: one.value for name, one in heat.items()},
            "grown": {
                name: pair[1] - pair[0]
                for name, pair in self.state["counters"].items()
                if name in counters and pair[1] != pair[0]
            },
        }
        text = json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n"
        path = self._folder / SAMPLES
        with path.open("a", encoding="utf-8") as stream:
            if stream.tell() + len(text) <= MOST_SAMPLE_BYTES:
                stream.write(text)

    def _wait(self) -> None:
        """Until the next sample, the end of the time, or a signal, which comes within a second."""
        while not self._stopped and self._left() > 0 and time.monotonic() < self._due:
            time.sleep(max(0.0, min(1.0, self._left(), self._due - time.monotonic())))

    def _kill(self) -> None:
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)
        for pid in self._running:
            os.waitpid(pid, 0)
        self._running.clear()

    def _keep(self) -> None:
        self.state["seconds"] = round(time.monotonic() - self._began, 1)
        write(self._folder / STATE, self.state)


def _state(order: Order) -> Dict[str, Any]:
    told = identity(_source("identity"))
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "id": order.id,
        "by": order.by,
        "wanted_seconds": order.seconds,
        "sample_seconds": order.sample_seconds,
        "began_at": round(time.time(), 1),
        "boot_id": boot_id(),
        "identity": told,
        "seconds": 0.0,
        "ended": None,
        "ended_at": None,
        "samples": 0,
        "missed": 0,
        "work": {},
        "counters": {},
        "highest": {},
        "unknown": {},
        "faults": [],
        "log": [],
    }


def _source(section: str) -> Source:
    """The machine, with a deadline of its own for this look."""
    return Source(Machine(Path("/"), None, Request()), section)


def boot_id() -> Optional[str]:
    """Which start of the machine this is."""
    return _source("boot").word(BOOT)


def _fork(load: Load) -> int:
    """Start a load in a process that ends with this one."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            load.run()
    finally:
        os._exit(1)
