"""Short trials of disk and memory, within limits of size and time; nothing stays behind."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any, Callable, Dict, List, Sequence, Tuple

from ..source import Source
from .memory import NO_EDAC, counted

# What etcd's own advice measures (etcd documentation, "Disks"): writes of 2300 bytes, each synced.
WRITE_BYTES = 2300
MOST_WRITES = 500
LEAST_WRITES = 50
FSYNC_SECONDS = 8.0
FOLDERS = ("/var/lib/etcd", "/var/lib")
MOST_MEMORY = 1 << 30
BLOCK = 4 << 20
MEMORY_SECONDS = 6.0
PODS = "/var/lib/kubelet/pods"
# A word among the trials: they run on a node that carries pods, too.
AMONG_PODS = "pods"


def run(source: Source, wanted: Sequence[str]) -> Dict[str, Any]:
    """Run the trials that are asked for; on a recorded machine none can run."""
    found: Dict[str, Any] = {}
    among_pods = AMONG_PODS in wanted
    trials: Dict[str, Callable[[Source], Dict[str, Any]]] = {
        "fsync": fsync,
        "memory": lambda source: memory(source, among_pods=among_pods),
    }
    for name, trial in trials.items():
        if name not in wanted:
            continue
        try:
            if not source.live:
                raise OSError("a recorded machine runs no trial")
            found.update(trial(source))
        except (OSError, MemoryError) as error:
            paths = {"fsync": ("trials.fsync_p99_ms",), "memory": ("trials.memory_errors",)}
            source.unseen(str(error) or type(error).__name__, *paths[name])
    return found


def fsync(_source: Source) -> Dict[str, Any]:
    """How long synced writes take where etcd's data is, or will be."""
    folder = next(name for name in FOLDERS if os.path.isdir(name))  # noqa: PTH112
    # A file without a name: whatever ends this process, nothing stays.
    with tempfile.TemporaryFile(dir=folder) as file:
        descriptor = file.fileno()
        os.posix_fallocate(descriptor, 0, WRITE_BYTES * MOST_WRITES)
        os.fsync(descriptor)
        took = time_writes(descriptor)
    if len(took) < LEAST_WRITES:
        raise OSError("only %d writes in %g s" % (len(took), FSYNC_SECONDS))
    return {
        "fsync_folder": folder,
        "fsync_writes": len(took),
        "fsync_p99_ms": round(percentile_99(took) * 1000, 3),
    }


def time_writes(descriptor: int) -> Sequence[float]:
    """Return the seconds of each write with its fdatasync."""
    ends = time.monotonic() + FSYNC_SECONDS
    data = os.urandom(WRITE_BYTES)
    took: List[float] = []
    while len(took) < MOST_WRITES and time.monotonic() < ends:
        os.write(descriptor, data)
        began = time.perf_counter()
        os.fdatasync(descriptor)
        took.append(time.perf_counter() - began)
    return took


def percentile_99(values: Sequence[float]) -> float:
    """Return the value that 99 of 100 do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * 99 // 100) - 1)]


def memory(source: Source, *, among_pods: bool = False) -> Dict[str, Any]:
    """Write patterns into a quarter of the free memory, at most 1 GiB, and read them back.

    Raises:
        OSError: the node carries pods, whose memory it would take.
    """
    if not among_pods:
        require_no_pods(source)
    before = counted(source)
    blocks, bad = test_blocks(min(MOST_MEMORY, available(source) // 4) // BLOCK, MEMORY_SECONDS)
    after = counted(source)
    found = {"memory_bytes": blocks * BLOCK, "memory_errors": bad}
    for kind, first in before.items():
        last = after[kind]
        if first is None or last is None:
            source.unseen(NO_EDAC, "trials.memory_" + kind)
        else:
            found["memory_" + kind] = max(0, last - first)
    return found


def require_no_pods(source: Source) -> None:
    """Raise for a node that carries pods, or does not show whether it does.

    Raises:
        OSError: it does; says how many.
    """
    pods = source.listed(PODS)
    if pods is None:
        raise OSError("not tried: whether the node carries pods is shown only to root")
    if pods:
        raise OSError("not tried, because the node carries %d pods" % len(pods))


def available(source: Source) -> int:
    """Bytes that can be taken without swapping."""
    for line in source.lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def test_blocks(most: int, seconds: float) -> Tuple[int, int]:
    """Write a pattern into blocks and read it back, then its inverse; both within half the time.

    Returns:
        How many blocks were tested with the pattern, and how many comparisons failed.
    """
    began = time.monotonic()
    pattern = os.urandom(BLOCK)
    inverse = pattern.translate(bytes(range(255, -1, -1)))
    blocks: List[bytearray] = []
    while len(blocks) < most and time.monotonic() - began < seconds / 2:
        blocks.append(bytearray(pattern))
    bad = sum(block != pattern for block in blocks)
    tested = []
    for block in blocks:
        if time.monotonic() - began > seconds:
            break
        block[:] = inverse
        tested.append(block)
    return len(blocks), bad + sum(block != inverse for block in tested)
