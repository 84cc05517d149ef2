"""What pods ask for and nodes offer, in the quantities of Kubernetes.

The form of a quantity: ``k8s.io/apimachinery/pkg/api/resource``, which counts up to 2^63 - 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Final

MOST: Final = 2**63 - 1
# Longer ones are no quantity: exact arithmetic takes time with the digits, whoever wrote them.
_QUANTITY: Final = re.compile(
    r"(\d{1,19}(?:\.\d{0,19})?|\.\d{1,19})(?:[eE]([+-]?\d{1,2})|(n|u|m|k|M|G|T|P|E|[KMGTPE]i)?)",
    re.ASCII,
)
# More than any quantity has, so that none of these is the beginning of a longer text.
_LETTERS: Final = 64
_UNITS: Final = {
    "": Fraction(1),
    **{unit: Fraction(1, 1000**n) for n, unit in enumerate(("m", "u", "n"), 1)},
    **{unit: Fraction(1000**n) for n, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024**n) for n, unit in enumerate("KMGTPE", 1)},
}


@dataclass(frozen=True)
class Resources:
    """What a pod asks for, or a node offers; GPUs are counted elsewhere.

    Attributes:
        cpu_milli: thousandths of a CPU.
        memory: bytes.
        pods: how many.
    """

    cpu_milli: int = 0
    memory: int = 0
    pods: int = 0


# One that asks for nothing.
JUST_A_POD: Final = Resources(pods=1)


def requests_of(
    containers: Iterable[Mapping[str, object]],
    first: Iterable[Mapping[str, object]] = (),
    overhead: Mapping[str, object] | None = None,
) -> Resources | None:
    """What the scheduler reserves for a pod; None where a quantity cannot be read.

    Without a request nothing is reserved: that is known, and no gap.

    Args:
        containers: the requests of each container, which run together.
        first: those of each init container, which run one after the other before them.
        overhead: of the pod's RuntimeClass.
    """
    together, one_by_one = list(containers), list(first)
    found = []
    for name, unit in (("cpu", 1000), ("memory", 1)):
        own, before = (
            [_count(one.get(name, "0"), unit, up=True) for one in several]
            for several in (together, one_by_one)
        )
        more = _count((overhead or {}).get(name, "0"), unit, up=True)
        if more is None or None in own or None in before:
            return None
        sums = sum(one for one in own if one is not None)
        found.append(more + max([sums, *(one for one in before if one is not None)]))
    return Resources(found[0], found[1], 1)


def allocatable_of(quantities: Mapping[str, object] | None) -> Resources | None:
    """What a node offers to pods; None where it does not say, or not readably."""
    told = quantities or {}
    cpu, memory, pods = (
        _count(told.get(name), unit, up=False)
        for name, unit in (("cpu", 1000), ("memory", 1), ("pods", 1))
    )
    if cpu is None or memory is None or pods is None:
        return None
    return Resources(cpu, memory, pods)


def _count(quantity: object, unit: int, *, up: bool) -> int | None:
    return _parsed(quantity[:_LETTERS] if isinstance(quantity, str) else "", unit, up=up)


@lru_cache(maxsize=4096)
def _parsed(text: str, unit: int, *, up: bool) -> int | None:
    """A quantity in parts of a unit, rounded to the careful side; None where it is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    factor = Fraction(10) ** int(match[2]) if match[2] else _UNITS[match[3] or ""]
    exact = Fraction(match[1].rstrip(".")) * factor * unit
    return min(ceil(exact) if up else floor(exact), MOST)
