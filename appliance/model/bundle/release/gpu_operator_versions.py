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


# The pair is that of NVIDIA/cloud-native-stack 6.0 (1.23.3 with 1.9.1). The ranges are the row
# "Ubuntu 20.04 LTS" of gpu-operator/platform-support.rst of NVIDIA/cloud-native-docs, by history:
# 22.9.0 (2022-10), 23.3.2 (2023-05; also the page of 23.6), 23.9.1 (2023-12, which corrects the
# 1.25 of 23.9.0), 24.3 (2024-04), 24.6 (2024-10), 24.9 (2024-12), 25.3 (2025-06), 25.10 (2025-10),
# 26.3 (2026-03). Later patch versions of a line may run on newer Kubernetes.
TESTED: Final[Mapping[str, Tested]] = {
    "1.9": Tested(((1, 23), (1, 23))),
    "22.9": Tested(((1, 21), (1, 25)), is_range=True),
    "23.3": Tested(((1, 21), (1, 27)), is_range=True),
    "23.6": Tested(((1, 21), (1, 27)), is_range=True),
    "23.9": Tested(((1, 22), (1, 28)), is_range=True),
    "24.3": Tested(((1, 22), (1, 30)), is_range=True),
    "24.6": Tested(((1, 23), (1, 30)), is_range=True),
    "24.9": Tested(((1, 24), (1, 31)), is_range=True),
    "25.3": Tested(((1, 29), (1, 33)), is_range=True),
    "25.10": Tested(((1, 30), (1, 34)), is_range=True),
    "26.3": Tested(((1, 32), (1, 35)), is_range=True),
}


def line_of(version: str) -> str:
    """``v22.9.2`` as ``22.9``: the line that the tables speak of."""
    return ".".join(version.removeprefix("v").split(".")[:2])
