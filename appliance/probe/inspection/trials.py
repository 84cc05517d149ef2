"""Short trials of disk and memory, within limits of size and time; nothing stays behind."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any, Dict, List, Sequence

from ..source import Source

# What etcd's own advice measures (etcd documentation, "Disks"): writes of 2300 bytes, each synced.
WRITE_BYTES = 2300
MOST_WRITES = 500
LEAST_WRITES = 50
FSYNC_SECONDS = 8.0
FOLDERS = ("/var/lib/etcd", "/var/lib")
MOST_MEMORY = 1 << 30
BLOCK = 4 << 20
MEMORY_SECONDS = 6.0


def run(source: Source, wanted: Sequence[str]) -> Dict[str, Any]:
    """Run the trials that are asked for; on a recorded machine none can run."""
    found: Dict[str, Any] = {}
    for name, trial in (("fsync", fsync), ("memory", memory)):
        if name not in wanted:
            continue
        try:
            if not source.live:
                raise OSError("a recorded machine")
            found.update(trial(source))
        except (OSError, MemoryError) as error:
            paths = {"fsync": ("trials.fsync_p99_ms",), "memory": ("trials.memory_errors",)}
            source.unseen("%s: %s" % (type(error).__name__, error), *paths[name])
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


def memory(source: Source) -> Dict[str, Any]:
    """Write patterns into a quarter of the free memory, at most 1 GiB, and compare them."""
    available = 0
    for line in source.lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    count = min(MOST_MEMORY, available // 4) // BLOCK
    ends = time.monotonic() + MEMORY_SECONDS
    pattern = os.urandom(BLOCK)
    inverse = pattern.translate(bytes(range(255, -1, -1)))
    blocks = []
    for _ in range(count):
        blocks.append(bytearray(pattern))
        if time.monotonic() > ends:
            break
    errors = sum(block != pattern for block in blocks)
    for block in blocks:
        block[:] = inverse
    errors += sum(block != inverse for block in blocks)
    return {"memory_bytes": len(blocks) * BLOCK, "memory_errors": errors}
