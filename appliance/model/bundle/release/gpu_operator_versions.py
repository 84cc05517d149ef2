"""Versions of the GPU Operator that Run:ai does not support."""

from __future__ import annotations

from typing import Final

# Versions whose GPU feature discovery Run:ai does not take, by their beginning.
REFUSED_VERSIONS: Final = ("1.10", "1.11")
REFUSED_BECAUSE: Final = (
    "1.10 and 1.11 publish nvidia.com/gpu.memory in bytes instead of MiB "
    "(NVIDIA/gpu-feature-discovery#26), so Run:ai takes 1.9, or 22.9 and later"
)


def is_refused(version: str) -> bool:
    """Whether Run:ai does not take this version of the operator."""
    return ".".join(version.removeprefix("v").split(".")[:2]) in REFUSED_VERSIONS
