"""The bundles of an upgrade's path: at hand, and on the services node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.bundle.mirror import read_mirror
from appliance.cli.wiring import note
from appliance.errors import BundleRefused
from appliance.workflows.cluster.upgrade_supply import Supply

if TYPE_CHECKING:
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.bundle.release.release import Release
    from appliance.model.state.desired import Desired


def supplies_of(
    desired: Desired,
    nodes: SshNodes,
    at_hand: Sequence[BundleDirectory],
    releases: Mapping[str, Release],
) -> dict[str, Supply]:
    """Release on the way -> its bundle.

    Args:
        desired: with the bundle that the services node serves, where none is at hand.
        nodes: SSH to the services node.
        at_hand: the bundles of the command line.
        releases: that a path to the one asked for may go through.

    Raises:
        BundleRefused: two bundles are of one release.
    """
    signers, found = desired.site.settings.bundle_signers, dict[str, Supply]()
    for one in at_hand:
        release = one.manifest.release
        if release in found:
            raise BundleRefused(
                f"found two bundles of {release}, expected one of each release",
                hint="leave one --bundle out",
            )
        signed = one.signature(Path(signers)) if signers else None
        if release in releases:
            found[release] = Supply(releases[release], one.manifest, one.digest, signed, one)
    served = desired
    if at_hand and not releases.keys() <= found.keys():
        bare = replace(desired, manifest=None, bundle_digest=None, signature=None)
        served = read_mirror(bare, nodes, note)
    manifest, digest = served.manifest, served.bundle_digest
    if manifest and digest and manifest.release in releases:
        supply = Supply(releases[manifest.release], manifest, digest)
        found.setdefault(manifest.release, supply)
    return found
