"""Is the bundle that the services node keeps the one that the operator meant for this site?

Root on that node can put any manifest there. So it is believed where somebody outside of that node
vouches for it: a signer whom the site names, or the digest that was written down on the control
host when a bundle was handed over. What must not be here: reading either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.signature import Signature

_SHOWN = 12


@dataclass(frozen=True)
class Doubt:
    """Why the bundle in custody is not believed: what was found, and what would be right."""

    seen: str
    expected: str

    def sentence(self) -> str:
        """In one line."""
        return f"found {self.seen}, expected {self.expected}"


@dataclass(frozen=True)
class KnownBundle:
    """What is written down of the bundle that was handed over last.

    Attributes:
        digest: sha256 of its manifest, hex; None when nothing is written down.
        fault: why nobody can tell what is written down; None when it was read.
    """

    digest: str | None = None
    fault: str | None = None


def unsigned(signature: Signature, signers: str) -> Doubt | None:
    """Of a site that names signers: what is wrong with the signature in custody."""
    if signature.fault is None:
        return None
    return Doubt(
        f"a bundle in custody that is not signed as the site asks: {signature.fault}",
        f"one signed by a key in {signers}, as bundle_signers in site.yml says",
    )


def not_the_known(digest: str, known: KnownBundle) -> Doubt | None:
    """Of a site that names none: whether another bundle was handed over than is in custody."""
    if known.fault is not None:
        return Doubt(known.fault, "the sha256 of the manifest that was handed over last")
    if known.digest is None or known.digest == digest:
        return None
    return Doubt(
        f"bundle {digest[:_SHOWN]} in custody",
        f"{known.digest[:_SHOWN]}, which was handed over last (known_bundle, in the site's "
        "directory)",
    )
