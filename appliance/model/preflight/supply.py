"""Is the bundle, at hand or in custody, one that this site takes?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.preflight.finding import Finding

if TYPE_CHECKING:
    from appliance.model.desired import Desired


def bundle_signature(desired: Desired) -> Iterator[Finding]:
    """The bundle for the services host is signed by somebody whom the site names."""
    signature, site = desired.signature, desired.site
    if signature is None or signature.fault is None:
        return
    yield Finding(
        site.services_node.name,
        "bundle_signature",
        "error",
        f"a bundle that is not signed as the site asks: {signature.fault}",
        f"one signed by a key in {site.settings.bundle_signers}, as bundle_signers in "
        "site.yml says",
        "give the bundle as its maker signed it, or have it signed by one of them: "
        "appliance bundle sign DIR --key FILE",
        of_site=True,
    )


def bundle_in_custody(desired: Desired) -> Iterator[Finding]:
    """Without a bundle at hand: nothing speaks against the one that the services node keeps."""
    doubt, services = desired.doubt, desired.site.services_node
    if doubt is None:
        return
    yield Finding(
        services.name,
        "bundle_in_custody",
        "error",
        doubt.seen,
        doubt.expected,
        "hand over the bundle that you mean: the same command with --bundle DIR; and ask who "
        f"changed the one on {services.name}",
        of_site=True,
    )
