"""What an upgrade brings to each node, and what its disks need; nothing is asked for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appliance.model.upgrade.evidence import Evidence, Silence
from appliance.model.upgrade.moves.loads import Carried, Load, image_bytes, loads_of
from appliance.model.upgrade.points.disks import DiskNeed, disk_needs

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.plan import UpgradePlan
    from appliance.workflows.cluster.upgrading.request import UpgradeRequest


@dataclass(frozen=True)
class Loads:
    """What comes to the nodes.

    Attributes:
        nodes: node -> what it is brought, release by release.
        disks: node -> what comes to its file systems, as the go/no-go list judges it.
        bundles: what the services node is brought.
        unknown: releases whose bundle is neither at hand nor served.
    """

    nodes: Mapping[str, tuple[Load, ...]] = field(default_factory=dict)
    disks: Mapping[str, tuple[DiskNeed, ...] | Silence] = field(default_factory=dict)
    bundles: tuple[Carried, ...] = ()
    unknown: tuple[str, ...] = ()


NO_LOADS: Final = Loads()


def loads(request: UpgradeRequest, observed: Observed, plan: UpgradePlan, space: Evidence) -> Loads:
    """What a plan brings.

    Args:
        request: with the bundles.
        observed: one look at nodes and API.
        plan: whose steps are carried out.
        space: what the judgement of the disks goes by.
    """
    site, steps = request.desired.site, (*plan.steps, *plan.rest)
    manifests = {release: one.manifest for release, one in request.supplies.items()}
    releases = dict.fromkeys(step.release for step in steps)
    services = site.services_node.name
    bundles = [
        Carried(release, services, _size(manifests[release]), _free(observed, services))
        for release in dict.fromkeys(step.release for step in steps if step.kind == "artifacts")
        if release in manifests
    ]
    return Loads(
        loads_of(site, steps, manifests),
        disk_needs(site, observed, space) if steps else {},
        tuple(bundles),
        tuple(release for release in releases if release not in manifests),
    )


def bytes_of_images(request: UpgradeRequest, releases: Collection[str]) -> int | Silence:
    """What the images of some releases take on one node, unpacked."""
    total = 0
    for release in dict.fromkeys(releases):
        supply = request.supplies.get(release)
        if supply is None:
            return Silence(f"the size of the images is in the manifest of the bundle of {release}")
        total += image_bytes(supply.manifest)
    return total


def _size(manifest: BundleManifest) -> int:
    return sum(file.size for file in manifest.files)


def _free(observed: Observed, name: str) -> int | None:
    facts = observed.node_facts.get(name)
    if facts is None:
        return None
    found = facts.filesystem("/var/lib/appliance").get("free_bytes")
    return found if isinstance(found, int) else None
