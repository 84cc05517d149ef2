"""Certificates that the organisation brings: its registry's, the CA of that, and its own CA.

The appliance renews none of them, so each is a row of its own, or says why it could not be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

REGISTRY: Final = "the organisation's registry"
REGISTRY_CA: Final = "CA of the organisation's registry"
ORGANISATION_CA: Final = "CA of the organisation"


@dataclass(frozen=True)
class Brought:
    """One certificate that the organisation brings.

    Attributes:
        kind: a CA is an authority.
        what: what it is for, and its place: NAME:PORT, or a file of this machine.
        ends: ISO 8601; empty where that is unknown.
        unknown: why, or empty.
    """

    kind: Literal["certificate", "authority"]
    what: str
    ends: str = ""
    unknown: str = ""
