"""Versions of Kubernetes, and which of them may run side by side.

The rules are Kubernetes' version skew policy and kubeadm's own (both 1.23): one minor between API
servers; a controller manager and a scheduler at most one minor older than an API server; a kubelet
and a kube-proxy at most two minors older. None of them is newer than the oldest API server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FORM: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:[+-].*)?")
OLDER_KUBELETS: Final = 2
OLDER_PARTS: Final = 1


@dataclass(frozen=True, order=True)
class Version:
    """A version: major, minor, patch."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}"

    def minors_to(self, other: Version) -> int:
        """How many minors the other is newer; negative where it is older."""
        return (other.major - self.major) * 100 + other.minor - self.minor


def parse(text: str) -> Version | None:
    """Read ``v1.23.5`` or ``1.23.5``; None for text of another form."""
    found = _FORM.fullmatch(text.strip())
    return Version(int(found[1]), int(found[2]), int(found[3])) if found else None


def skew_faults(
    api: dict[str, Version], parts: dict[str, Version], kubelets: dict[str, Version]
) -> Iterator[str]:
    """Yield a sentence for each pair of versions that may not run side by side.

    Args:
        api: node -> its API server's.
        parts: ``node: component`` -> a controller manager's or scheduler's.
        kubelets: node or ``kube-proxy on node`` -> its version.
    """
    if not api:
        return
    oldest, newest = min(api.values()), max(api.values())
    if oldest.minors_to(newest) > 1:
        yield f"API servers of {oldest} and {newest}: more than one minor version apart"
    for what, older, found in (
        ("", OLDER_PARTS, parts),
        ("", OLDER_KUBELETS, kubelets),
    ):
        for name, version in sorted(found.items()):
            if version.minors_to(oldest) < 0:
                yield f"{name}{what} is {version}, newer than the API server {oldest}"
            elif version.minors_to(newest) > older:
                yield f"{name}{what} is {version}, too old for the API server {newest}"
