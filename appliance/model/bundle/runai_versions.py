"""Run:ai's versions: the supported Kubernetes versions of each, and the components it includes.

The ranges are the vendor's own words, version by version; where two of its pages differ, the
narrower one counts. Other versions are unknown here, and are refused as that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

Version = tuple[int, int]

KUBERNETES: Final[Mapping[Version, tuple[Version, Version]]] = {
    (2, 4): ((1, 19), (1, 23)),
    (2, 5): ((1, 19), (1, 23)),
    (2, 6): ((1, 21), (1, 24)),
    (2, 7): ((1, 21), (1, 24)),
    (2, 8): ((1, 21), (1, 24)),
    (2, 9): ((1, 23), (1, 26)),
    (2, 10): ((1, 23), (1, 26)),
}
LAST_WITH_ALL: Final[Version] = (2, 8)
"""The last that brings its own nginx and Prometheus; later ones want them to be there."""
_IN_FILE_NAME = re.compile(
    r"^runai-(?:air-gapped-)?v?(\d+)\.(\d+)(?:[.\w-]*)\.(?:tar|tar\.gz|tgz)$"
)


def version_of_bundle(file_name: str) -> Version | None:
    """The version that a vendor bundle's file name tells; None when it tells none."""
    found = _IN_FILE_NAME.match(file_name)
    return (int(found[1]), int(found[2])) if found else None


def minor_of(version: str | None) -> Version | None:
    """``v1.23.5`` as (1, 23), of Run:ai or Kubernetes; None for what is no version."""
    numbers = re.match(r"v?(\d+)\.(\d+)", version or "")
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def dotted(version: Version) -> str:
    """(1, 23) as ``1.23``."""
    return f"{version[0]}.{version[1]}"


def brings_its_own(version: Version | None) -> bool:
    """Whether nginx and Prometheus come with it; so it is taken when no version is known."""
    return version is None or version <= LAST_WITH_ALL


def runs_on(version: Version, kubernetes: str) -> bool:
    """Whether this version of Run:ai takes this Kubernetes, by the vendor's own words."""
    known, running = KUBERNETES.get(version), minor_of(kubernetes)
    return known is not None and running is not None and known[0] <= running <= known[1]


def supported_range(kubernetes: str) -> str:
    """The versions that take this Kubernetes, for people: ``2.4 to 2.10``."""
    fit = [version for version in KUBERNETES if runs_on(version, kubernetes)]
    return f"{dotted(fit[0])} to {dotted(fit[-1])}" if fit else "no known version"
