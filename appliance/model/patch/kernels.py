"""The packages of kernels: which package belongs to which kernel, and which kernel is newer.

Names as Ubuntu's ``linux`` source package builds them: ``linux-PART-5.4.0-216-generic``, and
metapackages such as ``linux-image-generic``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

PARTS: Final = ("image", "image-unsigned", "modules", "modules-extra", "headers")
_OF_ONE: Final = re.compile(
    r"linux-(?P<part>image-unsigned|image|modules-extra|modules|headers)-(?P<kernel>\d[\w.+-]*)"
)
_OF_ANY: Final = re.compile(
    r"linux-(image|modules|headers|generic|lowlatency|virtual|tools|cloud-tools|hwe)\b.*|linux-\d.*"
)
_FLAVOUR: Final = re.compile(r"(?P<numbers>\d+(?:[.-]\d+)*)-(?P<flavour>[a-z][\w-]*)")


def is_of_a_kernel(name: str) -> bool:
    """Whether a package is a part of a kernel, or a metapackage that follows the newest one."""
    return _OF_ANY.fullmatch(name) is not None


def kernel_of(name: str) -> str:
    """The kernel that a package is a part of, as ``uname -r`` prints it; empty: of none.

    ``linux-headers-5.4.0-216`` serves every flavour, so it is of no kernel.
    """
    match = _OF_ONE.fullmatch(name)
    return match["kernel"] if match and _FLAVOUR.fullmatch(match["kernel"]) else ""


def kernels_in(names: Iterable[str]) -> tuple[str, ...]:
    """The kernels whose image is among some packages, the oldest first."""
    found = {
        kernel for name in names if name.startswith("linux-image-") and (kernel := kernel_of(name))
    }
    return tuple(sorted(found, key=kernel_order))


def kernel_order(kernel: str) -> tuple[tuple[int, ...], str]:
    """A key that sorts kernels by their numbers."""
    match = _FLAVOUR.fullmatch(kernel)
    numbers = match["numbers"] if match else ""
    return tuple(int(part) for part in re.findall(r"\d+", numbers)), kernel


def same_line(kernel: str, other: str) -> bool:
    """Whether two kernels are of one series and flavour: 5.4 generic, for instance."""
    one, two = _FLAVOUR.fullmatch(kernel), _FLAVOUR.fullmatch(other)
    if one is None or two is None:
        return False
    series = [match["numbers"].split(".")[:2] for match in (one, two)]
    return series[0] == series[1] and one["flavour"] == two["flavour"]


def follows(kernel: str, other: str) -> bool:
    """Whether a kernel follows another of its line."""
    return same_line(kernel, other) and kernel_order(kernel) > kernel_order(other)
