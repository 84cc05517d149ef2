"""Versions of Kubernetes, and which of them may run side by side.

The rules are Kubernetes' version skew policy and kubeadm's own (both 1.23): one minor between API
servers; a controller manager and a scheduler at most one minor older than their API server; a
kubelet and a kube-proxy at most two minors older. None is newer than the API servers that it asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    api: Mapping[str, Version],
    parts: Mapping[str, Mapping[str, Version]],
    kubelets: Mapping[str, Version],
    proxies: Mapping[str, Version],
) -> Iterator[str]:
    """Yield a sentence for each pair of versions that may not run side by side.

    Args:
        api: node -> its API server's.
        parts: node -> controller manager and scheduler -> its version. Each asks the API server of
            its own node only, as kubeadm writes their kubeconfigs.
        kubelets: node -> its version. Each asks any API server, so it is no newer than the oldest.
        proxies: node -> its kube-proxy's version. kubeadm changes all of them when the first of
            several API servers is new, so they are no newer than the newest.
    """
    if not api:
        return
    oldest, newest = min(api.values()), max(api.values())
    if oldest.minors_to(newest) > 1:
        yield f"API servers of {oldest} and {newest}: more than one minor version apart"
    for node, found in sorted(parts.items()):
        own = api.get(node, oldest)
        for name, version in found.items():
            yield from _faults(f"{node}: {name}", version, own, own, OLDER_PARTS)
    for node, version in sorted(kubelets.items()):
        yield from _faults(f"{node}: kubelet", version, oldest, newest, OLDER_KUBELETS)
    for node, version in sorted(proxies.items()):
        yield from _faults(f"{node}: kube-proxy", version, newest, newest, OLDER_KUBELETS)


def _faults(
    name: str, version: Version, at_most: Version, newest: Version, older: int
) -> Iterator[str]:
    if version.minors_to(at_most) < 0:
        yield f"{name} is {version}, newer than the API server {at_most}"
    elif version.minors_to(newest) > older:
        yield f"{name} is {version}, too old for the API server {newest}"
