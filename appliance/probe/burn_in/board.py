"""Numbers that workers in other processes count, in memory that they share.

Each place has one writer, so nothing is locked, and a worker that is killed loses no count.
"""

from __future__ import annotations

import mmap
import struct
from typing import Dict, List, Tuple

MOST = 1024


class Board:
    """Counters by part and name; made before the workers start."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * MOST)
        self._places: List[Tuple[str, str]] = []

    def counter(self, part: str, name: str) -> Counter:
        """A new place for one worker."""
        if len(self._places) == MOST:
            raise OSError("more than %d counters" % MOST)
        self._places.append((part, name))
        return Counter(self._memory, 8 * (len(self._places) - 1))

    def totals(self) -> Dict[str, Dict[str, int]]:
        """Part -> name -> the sum of all workers."""
        found: Dict[str, Dict[str, int]] = {}
        for number, (part, name) in enumerate(self._places):
            (value,) = struct.unpack_from("=Q", self._memory, 8 * number)
            of = found.setdefault(part, {})
            of[name] = of.get(name, 0) + value
        return found


class Counter:
    """One place of a board."""

    def __init__(self, memory: mmap.mmap, place: int) -> None:
        self._memory, self._place = memory, place

    def add(self, count: int = 1) -> None:
        """Count."""
        self.put(self.value + count)

    def put(self, value: int) -> None:
        """Set."""
        struct.pack_into("=Q", self._memory, self._place, value & ((1 << 62) - 1))

    @property
    def value(self) -> int:
        """The number."""
        (value,) = struct.unpack_from("=Q", self._memory, self._place)
        return int(value)
