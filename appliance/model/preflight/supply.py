"""Is the bundle at hand one that this site takes?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.preflight.finding import Finding, Subject


def bundle_signature(subject: Subject) -> Iterator[Finding]:
    """The bundle for the services host is signed by somebody whom the site names."""
    signature = subject.desired.signature
    if not subject.serves or signature is None or signature.fault is None:
        return
    yield subject.error(
        "bundle_signature",
        f"a bundle that is not signed as the site asks: {signature.fault}",
        f"one signed by a key in {subject.site.settings.bundle_signers}, as bundle_signers in "
        "site.yml says",
        "give the bundle as its maker signed it, or have it signed by one of them: "
        "appliance bundle sign DIR --key FILE",
    )
