"""A certificate authority as text."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Authority:
    """A CA: its certificate and its private key, both PEM. The key is never shown."""

    certificate: str
    key: str = field(repr=False)
