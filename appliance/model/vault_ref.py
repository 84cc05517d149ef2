"""References to secrets of ``vault.yml``: the only templates that a run's inventory holds.

A type of its own, so that no text can pass for one. What must not be here: secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

_NAME: Final = re.compile(r"vault_[a-z0-9_]+")


@dataclass(frozen=True)
class VaultRef:
    """Where Ansible finds a secret while a play runs.

    Attributes:
        name: of the secret in the vault.
        absent: what stands in its place where the vault has none; None: then the play fails.
    """

    name: str
    absent: Literal["''", "{}"] | None = None

    def __post_init__(self) -> None:
        """Refuse what is more than a name: it would become part of a template."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(self.name)

    @property
    def template(self) -> str:
        """The reference as Ansible reads it."""
        fallback = "" if self.absent is None else f" | default({self.absent}, true)"
        return f"{{{{ {self.name}{fallback} }}}}"


CA_CERTIFICATE: Final = VaultRef("vault_site_ca_certificate")
CA_KEY: Final = VaultRef("vault_site_ca_key")
