"""The loads: memory, processors, a file on the disk, and streams to another node.

Each runs in a process of its own until that is killed, and counts on the board. Every load is
bounded: a share of the free memory, one file without a name, bursts of the network.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import tempfile
import time
import zlib
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional

from ..inspection import stream
from .board import Board, Counter
from .order import Order

BLOCK = 4 << 20
MOST_MEMORY_WORKERS = 8
# Of the free memory: a half, and never the last of it.
MEMORY_LEFT = 1 << 30
# Of the free space: a tenth.
DISK_SHARE = 10
LEAST_DISK = 64 << 20
# A disk must not be worn by its test; what follows only reads.
MOST_WRITTEN = 64 << 30
DISK_REST_SECONDS = 5.0
BURST_SECONDS = 5.0
BURST_BYTES = 16 << 30
BURST_EVERY = 60.0
# The result of one round on a processor that calculates correctly.
KNOWN_ANSWER = "8101bf9c81c07ab41216b3cb1641fb2e83093c3b504030d8c1bcac79409ab08b"


class Load(NamedTuple):
    """One process: the part that it belongs to, and what it does until it is killed."""

    part: str
    run: Callable[[], None]


def loads(
    order: Order, folder: Path, free: int, board: Board, unknown: Dict[str, str]
) -> List[Load]:
    """Every load that this machine can carry; of a part without one, the reason is unknown."""
    found: List[Load] = []
    processors = os.cpu_count() or 1
    for _ in range(processors):
        found.append(_cpu(board))
    workers = min(MOST_MEMORY_WORKERS, processors)
    share = min(order.most_memory, free // 2, max(0, free - MEMORY_LEFT)) // workers // BLOCK
    if share:
        found += [_memory(board, share) for _ in range(workers)]
    else:
        unknown["memory"] = "less than 1 GiB is free"
    room = shutil.disk_usage(str(folder)).free // DISK_SHARE
    if room < LEAST_DISK:
        least = LEAST_DISK * DISK_SHARE >> 20
        unknown["disk"] = "less than %d MiB are free in %s" % (least, folder)
    else:
        found.append(_disk(board, folder, max(1, min(order.most_disk, room) // BLOCK)))
    if order.serves is None or order.connects is None:
        unknown["network"] = "no other node was burnt in beside it"
    else:
        found += _network(board, order)
    return found


def _memory(board: Board, blocks: int) -> Load:
    tested, passes = board.counter("memory", "bytes"), board.counter("memory", "passes")
    bad, size = board.counter("memory", "errors"), board.counter("memory", "size")

    def run() -> None:
        held = [bytearray(BLOCK) for _ in range(blocks)]
        size.put(blocks * BLOCK)
        while True:
            random = os.urandom(BLOCK)
            inverse = random.translate(bytes(range(255, -1, -1)))
            for pattern in (random, inverse, b"\x55" * BLOCK, b"\xaa" * BLOCK):
                fill_and_compare(held, pattern, tested, bad)
            passes.add()

    return Load("memory", run)


def fill_and_compare(held: List[bytearray], pattern: bytes, tested: Counter, bad: Counter) -> None:
    """Write one pattern everywhere, then read all of it back."""
    for block in held:
        block[:] = pattern
    for block in held:
        if block != pattern:
            bad.add()
        tested.add(len(block))


def _cpu(board: Board) -> Load:
    rounds, bad = board.counter("cpu", "rounds"), board.counter("cpu", "errors")

    def run() -> None:
        text = os.urandom(1 << 16) * 4
        while True:
            if answer() != KNOWN_ANSWER or zlib.decompress(zlib.compress(text)) != text:
                bad.add()
            rounds.add()

    return Load("cpu", run)


def answer() -> str:
    """One round of hashes, large numbers and fractions; the same on every machine."""
    digest = hashlib.pbkdf2_hmac("sha256", b"burn-in", b"appliance", 20000)
    number = int.from_bytes(digest * 8, "big") | 1
    power = pow(number, (1 << 2203) - 1, (1 << 2281) - 1)
    value = 1.5
    for _ in range(20000):
        value = (value * value + 0.25) / (value + 1.0) + 0.5
    return hashlib.sha256(digest + power.to_bytes(300, "big") + value.hex().encode()).hexdigest()


def _disk(board: Board, folder: Path, blocks: int) -> Load:
    written, read = board.counter("disk", "written"), board.counter("disk", "read")
    bad, passes = board.counter("disk", "errors"), board.counter("disk", "passes")
    full = board.counter("disk", "full")

    def run() -> None:
        # A file without a name: whatever ends this process, nothing stays.
        with tempfile.TemporaryFile(dir=str(folder)) as file:
            pattern = b""
            while True:
                try:
                    if not written.value or written.value + blocks * BLOCK <= MOST_WRITTEN:
                        fresh, pattern = os.urandom(BLOCK), b""
                        write_blocks(file.fileno(), fresh, blocks, written)
                        pattern = fresh
                    # What was not written whole is not compared.
                    if pattern:
                        read_blocks(file.fileno(), pattern, blocks, read, bad)
                        passes.add()
                except OSError as error:
                    (full if is_full(error) else bad).add()
                time.sleep(DISK_REST_SECONDS)

    return Load("disk", run)


def is_full(error: OSError) -> bool:
    """Whether somebody else filled the file system meanwhile, which is no fault of the disk."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _numbered(pattern: bytes, number: int) -> bytes:
    return number.to_bytes(8, "big") + pattern[8:]


def write_blocks(descriptor: int, pattern: bytes, blocks: int, written: Counter) -> None:
    """Write a file of numbered blocks, and sync it."""
    for number in range(blocks):
        view = memoryview(_numbered(pattern, number))
        place = number * BLOCK
        while view:
            count = os.pwrite(descriptor, view, place)
            view, place = view[count:], place + count
        written.add(BLOCK)
    os.fsync(descriptor)


def read_blocks(descriptor: int, pattern: bytes, blocks: int, read: Counter, bad: Counter) -> None:
    """Read it from the disk, not from memory, and compare."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    for number in range(blocks):
        found = os.pread(descriptor, BLOCK, number * BLOCK)
        if found != _numbered(pattern, number):
            bad.add()
        read.add(len(found))


def _network(board: Board, order: Order) -> List[Load]:
    streams, failed = board.counter("network", "streams"), board.counter("network", "failed")
    again, segments = (
        board.counter("network", "retransmitted"),
        board.counter("network", "segments"),
    )
    slowest = board.counter("network", "slowest_mbps")
    served = board.counter("network", "served")

    def connect() -> None:
        while True:
            ends = time.monotonic() + BURST_EVERY
            found = burst("connect", order, order.connects)
            if found is None:
                failed.add()
            else:
                streams.add()
                again.add(found.get("retransmitted") or 0)
                segments.add(found.get("segments") or 0)
                rate = int(found["sent_bytes"] * 8 / max(found["sent_seconds"], 1e-3) / 1e6)
                slowest.put(min(slowest.value or rate, rate))
            time.sleep(max(0.0, ends - time.monotonic()))

    def serve() -> None:
        while True:
            if burst("serve", order, order.serves) is not None:
                served.add()

    return [Load("network", connect), Load("network", serve)]


def burst(role: str, order: Order, peer: Optional[str]) -> Optional[Dict[str, int]]:
    """One stream, both ways; None where there was none."""
    told = stream.Order(
        role, order.own, peer or "", order.port, order.word, BURST_SECONDS, BURST_BYTES
    )
    try:
        found = stream.serve(told) if role == "serve" else stream.connect(told)
    except (OSError, ValueError, socket.timeout):
        time.sleep(0.2)
        return None
    return dict(found)
