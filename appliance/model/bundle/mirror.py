"""Decides whether the services node's bundle (the mirror) is the operator's bundle for this site.

Root on that node can replace the manifest. It is trusted only with evidence from outside the node:
a signature by one of the site's ``bundle_signers``, or the digest that the control host recorded
when the bundle was given. What must not be here: reading either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.bundle.signature import Signature

_SHOWN = 12


@dataclass(frozen=True)
class BundleDoubt:
    """Why the mirror's bundle is not trusted: what was found, and what was expected."""

    seen: str
    expected: str

    def sentence(self) -> str:
        """The finding in one line."""
        return f"found {self.seen}, expected {self.expected}"


@dataclass(frozen=True)
class KnownBundle:
    """The recorded digest of the last bundle given with ``--bundle``.

    Attributes:
        digest: sha256 of its manifest, hex; None if none is recorded.
        fault: why the record cannot be read; None if it was read.
    """

    digest: str | None = None
    fault: str | None = None


def unsigned(signature: Signature, signers: str) -> BundleDoubt | None:
    """For a site with ``bundle_signers``: the fault of the mirror's signature, or None."""
    if signature.fault is None:
        return None
    return BundleDoubt(
        f"a bundle without a valid signature: {signature.fault}",
        f"a signature by a key in {signers} (bundle_signers in site.yml)",
    )


def not_the_known(digest: str, known: KnownBundle) -> BundleDoubt | None:
    """For a site without signers: whether the mirror's bundle differs from the last given."""
    if known.fault is not None:
        return BundleDoubt(known.fault, "the sha256 of the manifest of the last --bundle")
    if known.digest is None or known.digest == digest:
        return None
    return BundleDoubt(
        f"bundle {digest[:_SHOWN]} on the services node",
        f"{known.digest[:_SHOWN]}, the last --bundle (known_bundle in the site's directory)",
    )
