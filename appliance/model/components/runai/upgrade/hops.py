"""May an installed Run:ai be upgraded to a version, and what does that hop ask for?

The ranges are one table (:mod:`appliance.model.bundle.runai_versions`). The vendor asks for the
steps of every version in between, so a hop over several versions has those of all of them. What
must not be here: the state of a site (:mod:`appliance.model.components.runai.upgrade`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from appliance.model.bundle.release.runai_versions import (
    LAST_WITH_ALL,
    LINES,
    Version,
    dotted,
    kubernetes_range,
    minor_of,
    other_way,
)


@dataclass(frozen=True)
class Hop:
    """An upgrade that is carried out.

    Attributes:
        current: the installed version, such as ``2.7.1``.
        target: the version of the vendor bundle.
        removes_nginx: the Deployment of the backend's nginx is deleted before helm.
    """

    current: str
    target: str
    removes_nginx: bool = False


@dataclass(frozen=True)
class NoHop:
    """An upgrade that is not carried out.

    Attributes:
        seen: what was asked for.
        expected: what is carried out instead, with the reason.
        first: the hop, or another step, to take first.
    """

    seen: str
    expected: str
    first: str


def judge_hop(current: str, target: str, kubernetes: str) -> Hop | NoHop:
    """Judge the hop from one version to another, other than itself.

    Args:
        current: the installed version.
        target: of the vendor bundle.
        kubernetes: the running version, e.g. ``v1.23.5``.
    """
    seen = f"Run:ai {current}, and a vendor bundle of {target}"
    old, new, running = minor_of(current), minor_of(target), minor_of(kubernetes)
    if old is None or new is None or not _is_ours(old):
        return NoHop(
            seen,
            f"an installed version that this product knows: {_ours()}",
            "follow the vendor's own procedure to one of them",
        )
    if _numbers(target) < _numbers(current):
        return NoHop(
            seen,
            "a newer version: the vendor has no way back to an older one",
            "to go back to what was there before an upgrade: appliance docs upgrade-runai",
        )
    if not _is_ours(new):
        return NoHop(seen, _why_not(new), _first_hop(old))
    fits = kubernetes_range(new)
    if running is None or fits is None or not fits[0] <= running <= fits[1]:
        return NoHop(
            f"Kubernetes {kubernetes or 'of an unknown version'}, and a vendor bundle of {target}",
            f"Kubernetes {_span(fits)}, on which Run:ai {dotted(new)} runs",
            "take a vendor bundle that runs on this Kubernetes: appliance runai inspect FILE",
        )
    return Hop(current, target, LINES[old].removes_nginx)


def _is_ours(version: Version) -> bool:
    known = LINES.get(version)
    return known is not None and not known.lacks


def _ours() -> str:
    fit = [version for version in LINES if _is_ours(version)]
    return f"{dotted(fit[0])} to {dotted(fit[-1])}"


def _why_not(version: Version) -> str:
    """Why a later version is not upgraded to, with its range of Kubernetes where it is known."""
    way, fits = other_way(version), kubernetes_range(version)
    reason = f": for {dotted(version)} {way}" if way else ""
    runs = f"; it runs on Kubernetes {_span(fits)}" if fits and version > LAST_WITH_ALL else ""
    return f"a version from {_ours()}{reason}{runs}"


def _first_hop(old: Version) -> str:
    last = dotted(LAST_WITH_ALL)
    if old < LAST_WITH_ALL:
        return f"take this hop first: a vendor bundle of Run:ai {last}, by appliance runai upgrade"
    return (
        f"no hop from {last} onwards is carried out here; the vendor's own procedure is needed, "
        "with a release of the appliance that has it"
    )


def _span(found: tuple[Version, Version] | None) -> str:
    return f"{dotted(found[0])} to {dotted(found[1])}" if found else "of a known range"


def _numbers(version: str) -> tuple[int, ...]:
    """2.7.14 as (2, 7, 14); what follows a release number is left out."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
