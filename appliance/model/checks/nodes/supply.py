"""Does the site accept the given bundle, or the one on the services host?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.state.findings import Finding

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired


def bundle_signature(desired: Desired) -> Iterator[Finding]:
    """The bundle is signed by one of the site's signers."""
    signature, site = desired.signature, desired.site
    if signature is None or signature.fault is None:
        return
    yield Finding(
        site.services_node.name,
        "bundle_signature",
        "error",
        f"a bundle without a valid signature: {signature.fault}",
        f"a signature by a key in {site.settings.bundle_signers}, the bundle_signers of site.yml",
        "use the bundle with its original signature, or let one of the signers sign it: "
        "appliance bundle sign DIR --key FILE",
        of_site=True,
    )


def mirrored_bundle(desired: Desired) -> Iterator[Finding]:
    """Without a given bundle, the one on the services host can be used."""
    doubt, services = desired.doubt, desired.site.services_node
    if doubt is None:
        return
    yield Finding(
        services.name,
        "mirrored_bundle",
        "error",
        doubt.seen,
        doubt.expected,
        "run the same command with --bundle DIR, and find out what changed the bundle on "
        f"{services.name}",
        of_site=True,
    )
