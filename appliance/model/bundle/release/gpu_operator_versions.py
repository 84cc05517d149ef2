"""Versions of the GPU Operator: those that Run:ai does not support, and for which Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

# Versions whose GPU feature discovery Run:ai does not take, by their beginning.
REFUSED_VERSIONS: Final = ("1.10", "1.11")
REFUSED_BECAUSE: Final = (
    "1.10 and 1.11 publish nvidia.com/gpu.memory in bytes instead of MiB "
    "(NVIDIA/gpu-feature-discovery#26), so Run:ai takes 1.9, or 22.9 and later"
)


def is_refused(version: str) -> bool:
    """Whether Run:ai does not take this version of the operator."""
    return line_of(version) in REFUSED_VERSIONS


class Tested(NamedTuple):
    """On which versions of Kubernetes a line of the operator runs.

    Attributes:
        kubernetes: the oldest and the newest that the source names.
        is_range: NVIDIA names a whole range, so others are excluded; otherwise it names what it
            tested together, and nothing is known of others.
    """

    kubernetes: tuple[tuple[int, int], tuple[int, int]]
    is_range: bool = False


# Pairs of NVIDIA/cloud-native-stack: 6.0 (1.23.3 with 1.9.1), 6.3 and 6.4 (1.23 with 22.9), 7.3
# (1.24.10 with 22.9.2), 7.4 (1.24.12 with 23.3.2). Ranges: NVIDIA/cloud-native-docs, pull requests
# 111 (24.6, Ubuntu 20.04) and 217 (25.3).
TESTED: Final[Mapping[str, Tested]] = {
    "1.9": Tested(((1, 23), (1, 23))),
    "22.9": Tested(((1, 23), (1, 24))),
    "23.3": Tested(((1, 24), (1, 24))),
    "24.6": Tested(((1, 23), (1, 30)), is_range=True),
    "25.3": Tested(((1, 29), (1, 33)), is_range=True),
}


def line_of(version: str) -> str:
    """``v22.9.2`` as ``22.9``: the line that the tables speak of."""
    return ".".join(version.removeprefix("v").split(".")[:2])
