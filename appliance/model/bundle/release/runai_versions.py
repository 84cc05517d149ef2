"""Run:ai's versions: the supported Kubernetes versions, what each includes, and what it lacks.

The Kubernetes ranges are the vendor's own words, version by version; where two of its pages differ,
the narrower one counts. A version that is not here is unknown, and is refused as that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Version = tuple[int, int]


class Trusting(NamedTuple):
    """Workloads of Run:ai that call the backend by its name, and so must trust its CA.

    Attributes:
        names: patterns of their names.
        required: an install waits until one of that name exists.
    """

    namespace: Literal["runai-backend", "runai"]
    names: str
    required: bool = False


class Line(NamedTuple):
    """What is known of the versions 2.N.*.

    Attributes:
        kubernetes: the oldest and the newest that it runs on.
        trusting: what learns the CA by a mount of ours, because its charts have no value for it.
        first_password: the password of ``test@run.ai`` in the vendor's pages of that time.
        auth_enabled: its cluster chart has ``researcher-service.args.authEnabled``.
        lacks: why a site of ours cannot run it; empty where it can.
        removes_nginx: an upgrade from it first deletes the Deployment of the backend's nginx.
    """

    kubernetes: tuple[Version, Version]
    trusting: tuple[Trusting, ...]
    first_password: str
    auth_enabled: bool = True
    lacks: str = ""
    removes_nginx: bool = False


# The vendor's page of a local certificate authority documents global.customCA for the charts of
# 2.13 and later. Before, a consultants' script gave NODE_EXTRA_CA_CERTS to the backend and mounted
# the CA into assets-sync. The vendor's troubleshooting page names runai-agent and cluster-sync.
_TRUSTING: Final = (
    Trusting("runai-backend", "*backend-backend", required=True),
    Trusting("runai", "runai-agent", required=True),
    Trusting("runai", "*cluster-sync"),
    Trusting("runai", "*assets-sync"),
    # It compares the tokens of researchers with the keys of the backend's identity provider.
    Trusting("runai", "*researcher-service"),
)
_WITHOUT_INGRESS: Final = (
    "it brings neither an ingress controller nor Prometheus, and no bundle of this product has them"
)
LINES: Final[Mapping[Version, Line]] = {
    (2, 4): Line(((1, 19), (1, 23)), _TRUSTING, "password", removes_nginx=True),
    (2, 5): Line(((1, 19), (1, 23)), _TRUSTING, "password", removes_nginx=True),
    (2, 6): Line(((1, 21), (1, 24)), _TRUSTING, "password"),
    (2, 7): Line(((1, 21), (1, 24)), _TRUSTING, "Abcd!234"),
    (2, 8): Line(((1, 21), (1, 24)), _TRUSTING, "Abcd!234"),
    (2, 9): Line(
        ((1, 23), (1, 26)), _TRUSTING, "Abcd!234", auth_enabled=False, lacks=_WITHOUT_INGRESS
    ),
    (2, 10): Line(
        ((1, 23), (1, 26)), _TRUSTING, "Abcd!234", auth_enabled=False, lacks=_WITHOUT_INGRESS
    ),
}
LAST_WITH_ALL: Final[Version] = (2, 8)
"""The last that brings its own nginx and Prometheus; later ones want them to be there."""
# The vendor's table of cluster requirements, in its documents of 2.20. 2.11, 2.12: not known.
LATER: Final[Mapping[Version, tuple[Version, Version]]] = {
    (2, 13): ((1, 23), (1, 28)),
    (2, 16): ((1, 26), (1, 28)),
    (2, 17): ((1, 27), (1, 29)),
    (2, 18): ((1, 28), (1, 30)),
    (2, 19): ((1, 28), (1, 31)),
    (2, 20): ((1, 29), (1, 32)),
}
"""Versions that no site of ours runs, with the Kubernetes that each runs on."""
# The vendor's pages of an upgrade (k8s/upgrade.md, cluster-upgrade.md) of each time.
OTHER_WAYS: Final[Mapping[Version, str]] = {
    (2, 9): (
        "the workloads of the backend are deleted first, ingress-nginx and Prometheus come from "
        "elsewhere, and the cluster part is installed again"
    ),
    (2, 12): (
        "the backend has another chart, which takes over the two volume claims by hand, and the "
        "cluster part is installed again"
    ),
}
"""First version of each later way -> what the vendor's own procedure does there."""
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
    """Whether a site of ours with this Kubernetes runs this version of Run:ai."""
    known, running = LINES.get(version), minor_of(kubernetes)
    if known is None or known.lacks or running is None:
        return False
    return known.kubernetes[0] <= running <= known.kubernetes[1]


def what_it_lacks(version: Version | None) -> str:
    """Why no site of ours runs a version that the vendor's table names; else empty."""
    known = LINES.get(version) if version else None
    return known.lacks if known else ""


def trusting(version: Version | None) -> tuple[Trusting, ...]:
    """What has to be given the CA; of an unknown version nothing, which is refused anyway."""
    known = LINES.get(version) if version else None
    return known.trusting if known else ()


def kubernetes_range(version: Version) -> tuple[Version, Version] | None:
    """The oldest and the newest Kubernetes of a version; None where no page tells it."""
    known = LINES.get(version)
    return known.kubernetes if known else LATER.get(version)


def other_way(version: Version) -> str:
    """What the vendor's procedure does for a version that is not upgraded to here; else empty."""
    ways = [text for first, text in OTHER_WAYS.items() if version >= first]
    return ways[-1] if ways else ""


def supported_range(kubernetes: str) -> str:
    """The versions that a site with this Kubernetes runs, for people: ``2.4 to 2.8``."""
    fit = [version for version in LINES if runs_on(version, kubernetes)]
    return f"{dotted(fit[0])} to {dotted(fit[-1])}" if fit else "no known version"
