"""Sign a bundle: vouch, with an SSH key, for exactly what its manifest says.

Only a bundle that is whole is signed: a good signature over a manifest whose files are broken would
send somebody to an air-gapped site with a medium that the install refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import BundleRefused
from appliance.model.bundle_faults import cure

if TYPE_CHECKING:
    from appliance.workflows.bundle_ports import BundleSigner
    from appliance.workflows.ports import Bundle


@dataclass(frozen=True)
class Signed:
    """What came of it.

    Attributes:
        signature: path of the signature.
        replaced: whether another signature was there before.
    """

    signature: str
    replaced: bool


def sign_bundle(bundle: Bundle, signer: BundleSigner, note: Callable[[str], None]) -> Signed:
    """Check every byte, then sign.

    Raises:
        BundleRefused: the bundle is not whole; nothing was signed.
        CommandFailed: the signature could not be made.
    """
    note("checking every byte of the bundle")
    faults = bundle.faults()
    if faults:
        raise BundleRefused(
            f"the bundle {bundle.directory} is not whole, and was not signed: {faults[0]}",
            details=[str(fault) for fault in faults[1:]],
            hint=cure(bundle.directory, bundle.manifest, faults),
        )
    return Signed(signer.path, signer.sign())
