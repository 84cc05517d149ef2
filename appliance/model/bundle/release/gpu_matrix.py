"""Which driver branches NVIDIA names for which GPU Operator, and in which order operators follow.

Source: ``gpu-operator/life-cycle-policy.rst`` of NVIDIA/cloud-native-docs, through its history: the
column "NVIDIA GPU Driver" of the component matrix, with what NVIDIA added to a row later (22.9.2
got 535 when 23.3.2 appeared), and "Upgrades are only supported within a major release or to the
next major release". What must not be here: which Kubernetes an operator runs on
(:mod:`appliance.model.bundle.release.gpu_operator_versions`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from appliance.model.bundle.release.gpu_operator_versions import line_of

BRANCHES: Final[Mapping[str, tuple[int, ...]]] = {
    "1.9": (470,),
    "1.10": (510,),
    "1.11": (450, 470, 510, 515),
    "22.9": (450, 470, 510, 515, 520, 525, 535),
    "23.3": (450, 470, 510, 515, 525, 535),
    "23.6": (470, 525, 535),
    "23.9": (470, 525, 535, 550),
    "24.3": (470, 535, 550),
    "24.6": (535, 550, 560),
    "24.9": (535, 550, 560, 565, 570),
    "25.3": (535, 550, 570, 575, 580),
    "25.10": (535, 550, 570, 575, 580, 590),
    "26.3": (535, 570, 580, 590, 595),
}
"""Line of the operator -> branches, oldest first. The lines are NVIDIA's majors, in their order."""
_LINES: Final = tuple(BRANCHES)
_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-+~].*)?")

Numbers = tuple[int, int, int]


def numbers_of(version: str) -> Numbers | None:
    """``v22.9.2`` or ``535.183.06`` as numbers; None for text of another form."""
    found = _VERSION.fullmatch(version.strip())
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def branch_of(driver: str) -> int | None:
    """The branch of a driver's version: ``535.183.06`` is of 535."""
    found = numbers_of(driver)
    return found[0] if found else None


def pair_fault(operator: str, driver: str) -> str:
    """Why NVIDIA's matrix does not have this pair; empty where it does.

    Args:
        operator: version of the GPU Operator, with or without a v.
        driver: version of the driver, or its branch and a dot.
    """
    line, branch = line_of(operator), branch_of(driver)
    named = BRANCHES.get(line)
    if named is None:
        return f"GPU Operator {operator}, whose drivers are not known"
    if branch is None:
        return f"driver {driver}, whose branch cannot be read"
    if branch in named:
        return ""
    words = ", ".join(str(one) for one in named)
    if branch < named[0]:
        return f"driver {driver}, too old for GPU Operator {operator}, which takes {words}"
    return f"driver {driver}, which NVIDIA does not name for GPU Operator {operator} ({words})"


def step_fault(now: str, to: str) -> tuple[str, str]:
    """Why an operator is not upgraded in one step, and what to do; two empty texts where it is.

    Args:
        now: the version that runs.
        to: the version of the bundle.
    """
    before, after = numbers_of(now), numbers_of(to)
    if before is None or after is None:
        unread = now if before is None else to
        return f"GPU Operator of version {unread}", "see what runs: appliance status"
    if after < before:
        return (
            f"GPU Operator {now}, newer than {to} of the bundle",
            f"use a bundle with GPU Operator {now} or newer: an operator is not downgraded",
        )
    lines = line_of(now), line_of(to)
    if lines[0] == lines[1]:
        return "", ""
    if not set(lines) <= set(_LINES):
        unknown = next(line for line in lines if line not in BRANCHES)
        return f"GPU Operator {unknown}, which is not known", "use a newer version of this tool"
    at = _LINES.index(lines[0])
    if _LINES[at + 1] == lines[1]:
        return "", ""
    return (
        f"GPU Operator {now}, from which NVIDIA does not upgrade to {to}",
        f"first upgrade to a bundle with GPU Operator {_LINES[at + 1]}",
    )
