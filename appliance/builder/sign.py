"""Sign a bundle's manifest with an SSH key.

Only a complete bundle is signed: an engineer with a signed but damaged bundle would find out only
at the air-gapped site.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import BundleRefused
from appliance.model.bundle.faults import cure

if TYPE_CHECKING:
    from appliance.builder.ports import BundleSigner
    from appliance.workflows.session.ports import Bundle


@dataclass(frozen=True)
class SignResult:
    """The result of signing.

    Attributes:
        signature: path of the signature.
        replaced: whether it replaced an earlier signature.
    """

    signature: str
    replaced: bool


def sign_bundle(bundle: Bundle, signer: BundleSigner, note: Callable[[str], None]) -> SignResult:
    """Check every byte, then sign.

    Raises:
        BundleRefused: the bundle is damaged; nothing was signed.
        CommandFailed: signing failed.
    """
    note("checking every byte of the bundle")
    faults = bundle.faults()
    if faults:
        raise BundleRefused(
            f"the bundle {bundle.directory} is damaged and was not signed: {faults[0]}",
            details=[str(fault) for fault in faults[1:]],
            hint=cure(bundle.directory, bundle.manifest, faults, delta=bundle.delta is not None),
        )
    if bundle.delta is not None:
        note(
            f"a delta {bundle.delta.words(bundle.manifest)}; the signature is that of the whole "
            "bundle's manifest"
        )
    return SignResult(signer.path, signer.sign())
