"""The state of a bundle's signature and its signer.

What must not be here: reading the signature, or calling ssh-keygen (the adapter does).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

# ssh-keygen accepts a signature only for the namespace it was made for.
NAMESPACE = "appliance-bundle@hyperscalers"
# A signature by one of the largest keys has about 3000 bytes.
MOST_BYTES = 64 << 10

SignatureState = Literal["none", "unchecked", "good", "missing", "wrong"]


@dataclass(frozen=True)
class Signature:
    """The signature of one manifest.

    Attributes:
        state: none or unchecked without allowed signers; with them good, missing or wrong.
        signer: the principal in allowed_signers, if the signature is good.
        key: type and SHA256 fingerprint of the signing key, if known.
        fault: the fault in one sentence; None without a fault or without a check.
        text: the text of a good signature.
    """

    state: SignatureState
    signer: str | None = None
    key: str | None = None
    fault: str | None = None
    text: str = ""

    @property
    def sha256(self) -> str | None:
        """Digest of a good signature's text, hex; None if it is not good."""
        return hashlib.sha256(self.text.encode()).hexdigest() if self.text else None

    def words(self) -> str:
        """The state for one line of output."""
        if self.state == "good":
            return f"good, by {self.signer} ({self.key})"
        if self.state == "unchecked":
            return "present, not checked (pass --allowed-signers)"
        return f"{self.state}: {self.fault}" if self.fault else self.state

    def as_json(self) -> dict[str, Any]:
        """The data of ``--output json``; the keys are a contract."""
        return {"state": self.state, "signer": self.signer, "key": self.key, "fault": self.fault}
