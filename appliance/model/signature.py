"""What is known of a bundle's signature: whether there is one, and whose it is.

What must not be here: reading it, or calling ssh-keygen (that is the adapter's).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

# ssh-keygen takes a signature only for the namespace that it was made for.
NAMESPACE = "appliance-bundle@hyperscalers"
# One of the largest keys is some 3000 bytes.
MOST_BYTES = 64 << 10

SignatureState = Literal["none", "unchecked", "good", "missing", "wrong"]


@dataclass(frozen=True)
class Signature:
    """The signature of one manifest.

    Attributes:
        state: none and unchecked when nobody said who may sign; good, missing or wrong when
            somebody did.
        signer: the principal of the allowed signers who made it, when it is good.
        key: type and SHA256 fingerprint of the key that made it, when that was seen.
        fault: what is wrong with it, in one sentence; None when nothing is, or nobody looked.
        text: as it is written, when it is good.
    """

    state: SignatureState
    signer: str | None = None
    key: str | None = None
    fault: str | None = None
    text: str = ""

    @property
    def sha256(self) -> str | None:
        """Of its text, hex; None when it is not good."""
        return hashlib.sha256(self.text.encode()).hexdigest() if self.text else None

    def words(self) -> str:
        """For a line of output."""
        if self.state == "good":
            return f"good, by {self.signer} ({self.key})"
        if self.state == "unchecked":
            return "present, not checked (pass --allowed-signers)"
        return f"{self.state}: {self.fault}" if self.fault else self.state

    def as_json(self) -> dict[str, Any]:
        """For ``--output json``; the keys are a contract."""
        return {"state": self.state, "signer": self.signer, "key": self.key, "fault": self.fault}
