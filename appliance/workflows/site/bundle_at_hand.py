"""The bundle at hand before an install: needed or not, the right one, undamaged.

What must not be here: what is in a bundle (:mod:`appliance.model.bundle`), or reading one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import BundleRefused
from appliance.model.bundle.faults import cure
from appliance.model.components.artifacts.unmet import mirrored
from appliance.model.plan.steps import BY_NAME
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.workflows.session.survey import Survey

if TYPE_CHECKING:
    from appliance.workflows.session.ports import Bundle
    from appliance.workflows.session.session import Session


def is_bundle_copied(found: Survey, desired: Desired) -> bool:
    """Whether the plan copies a bundle; a complete one on the services node is not copied again."""
    services = desired.site.services_node.name
    return any(
        services in planned.nodes and any(mirrored(found.observed.node_facts[services], desired))
        for planned in found.plan.steps
        if BY_NAME[planned.name].gives_bundle
    )


def copied_bundle(found: Survey, desired: Desired) -> tuple[str, ...]:
    """One line if the plan copies a bundle, else none."""
    services = desired.site.services_node.name
    return (f"{services}: the bundle is copied",) if is_bundle_copied(found, desired) else ()


def require_bundle(found: Survey, desired: Desired, ports: Session) -> None:
    """Check the bundle if the services node needs it, or if the site has no other bundle.

    Raises:
        BundleRefused: no bundle, another release or OS, or damaged.
    """
    services = desired.site.services_node.name
    needed = is_bundle_copied(found, desired)
    release, site = desired.release.name, desired.site.settings
    build = f"appliance bundle build --release {release} --os {site.operating_system} DIR"
    if ports.bundle is None:
        if needed or desired.manifest is None:
            raise BundleRefused(
                f"{services}: the site needs the bundle of release {release}: --bundle is missing",
                hint=f"appliance install --bundle DIR (to build it: {build})",
            )
        return
    manifest = ports.bundle.manifest
    if (manifest.release, manifest.os) != (release, site.operating_system):
        raise BundleRefused(
            f"{services}: found the bundle {ports.bundle.directory} of {manifest.release} for "
            f"{manifest.os}, expected {release} for {site.operating_system}, as the site says",
            hint=f"pass the right bundle with --bundle, or build it: {build}",
        )
    if not needed:
        return
    _require_base(services, found.observed, ports.bundle)
    ports.observer.note("checking every byte of the bundle")
    faults = ports.bundle.faults()
    if faults:
        raise BundleRefused(
            f"{services}: the bundle {ports.bundle.directory} is damaged: {faults[0]}",
            hint=cure(
                ports.bundle.directory, manifest, faults, delta=ports.bundle.delta is not None
            ),
            details=[str(fault) for fault in faults[1:]],
        )


def _require_base(services: str, observed: Observed, bundle: Bundle) -> None:
    """Refuse a delta where the services node has no bundle at all that it could complete.

    Raises:
        BundleRefused: it holds none.
    """
    if bundle.delta is None or observed.node_facts[services].at("artifacts.present"):
        return
    manifest = bundle.manifest
    raise BundleRefused(
        f"{services}: the bundle {bundle.directory} is a delta {bundle.delta.words(manifest)}, and "
        "no bundle is stored on the node",
        hint="bring the whole bundle: appliance bundle build "
        f"--release {manifest.release} --os {manifest.os} DIR",
    )


def vouch(desired: Desired, observed: Observed, ports: Session) -> None:
    """Write down which bundle was handed over, where the services node holds it."""
    services = observed.node_facts.get(desired.site.services_node.name)
    if ports.bundle is None or desired.bundle_digest is None or services is None:
        return
    if services.at("artifacts.bundle_digest") == desired.bundle_digest:
        ports.handed_over(desired.bundle_digest)
