"""What an upgrade of Kubernetes is given: every release, and the bundles on its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.mirror import read_mirror
from appliance.adapters.local.content import list_releases, load_release
from appliance.adapters.site.settings_choice import chosen_release
from appliance.cli.wiring import note
from appliance.errors import BundleRefused
from appliance.model.upgrade.path import hop_of, on_the_way
from appliance.workflows.cluster.upgrading.request import UpgradeRequest
from appliance.workflows.cluster.upgrading.supply import Supply

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.model.upgrade.plan import UpgradeOptions


def upgrade_request(desired: Desired, options: UpgradeOptions, run: Run) -> UpgradeRequest:
    """The request with all that this tool knows of releases.

    Raises:
        Refused: ``site.yml`` cannot be read any more.
    """
    releases = {name: load_release(name) for name in list_releases()}
    return UpgradeRequest(
        desired,
        {name: hop_of(release) for name, release in releases.items()},
        options,
        run,
        before=chosen_release(desired.site.directory),
        measured={name: release.measured for name, release in releases.items()},
    )


def supplies_of(
    desired: Desired,
    nodes: SshNodes,
    given: Sequence[BundleDirectory | Path | None],
    to: str,
) -> dict[str, Supply]:
    """Release on the way -> its bundle.

    Args:
        desired: with the bundle that the services node serves, where none is at hand.
        nodes: SSH to the services node.
        given: the bundles of the command line, open or not; None stands for none.
        to: the release that is asked for.

    Raises:
        BundleRefused: two bundles are of one release.
    """
    releases = on_the_way({name: load_release(name) for name in list_releases()}, to)
    signers, found = desired.site.settings.bundle_signers, dict[str, Supply]()
    at_hand = [BundleDirectory(one) if isinstance(one, Path) else one for one in given if one]
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
