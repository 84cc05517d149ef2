"""Each release of an upgrade's path with its bundle: at hand, or on the services node.

What must not be here: opening a bundle, or reading the services node (the command line does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import BundleRefused

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.bundle.release.release import Release
    from appliance.model.bundle.signature import Signature
    from appliance.model.state.desired import Desired
    from appliance.model.upgrade.plan import UpgradePlan
    from appliance.workflows.session.ports import Bundle


@dataclass(frozen=True)
class Supply:
    """A release, and where its bundle is.

    Attributes:
        digest: sha256 of the bundle's ``manifest.json``, hex.
        signature: of a bundle at hand, where the site names signers.
        bundle: at hand; None where only the services node has it.
    """

    release: Release
    manifest: BundleManifest
    digest: str
    signature: Signature | None = None
    bundle: Bundle | None = None

    def desired_of(self, target: Desired) -> Desired:
        """What is desired while the upgrade goes through this release."""
        site = target.site
        settings = site.settings.model_copy(update={"appliance_release": self.release.name})
        return replace(
            target,
            site=replace(site, settings=settings),
            release=self.release,
            manifest=self.manifest,
            bundle_digest=self.digest,
            signature=self.signature,
        )


def require_bundles(supplies: Mapping[str, Supply], target: Desired, plan: UpgradePlan) -> None:
    """Refuse to begin without the bundle of each release that the run goes through.

    Args:
        supplies: release -> its bundle, each for the operating system of the site.
        target: with the site.
        plan: whose steps up to the pause are carried out.

    Raises:
        BundleRefused: names the first release without one; nothing was changed.
    """
    system, to = target.site.settings.operating_system, target.release.name
    for release in dict.fromkeys(step.release for step in plan.steps):
        found = supplies.get(release)
        if found is not None and found.manifest.os == system:
            continue
        known = [found] if found else [*supplies.values()]
        held = " and ".join(f"the bundle of {_words(one.manifest)}" for one in known)
        build = f"appliance bundle build --release {release} --os {system} DIR"
        raise BundleRefused(
            f"found {held or 'no bundle'}, expected the bundle of {release} for {system}",
            hint=f"appliance cluster upgrade --to {to} --bundle DIR, once for each release "
            f"(to build it: {build})",
        )


def _words(manifest: BundleManifest) -> str:
    return f"{manifest.release} for {manifest.os}"
