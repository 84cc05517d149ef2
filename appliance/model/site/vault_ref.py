"""What is a template to Ansible, and the only ones that a run's inventory holds: vault references.

They are a type of their own, so that no text can pass for one. What must not be here: secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

Vars = dict[str, Any]

# What Ansible takes for a template: Jinja's opening brackets, or a first line that names others.
TEMPLATE: Final = re.compile(r"\{\{|\{%|\{#|\A#jinja2:")
# The tag by which a value of a YAML file is none.
UNSAFE: Final = "!unsafe"
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
# A group of a run's inventory only: outside a run, the CA's key is no variable of any node.
CA_GROUP: Final = "appliance_site_ca"
CA_FILE: Final = f"group_vars/{CA_GROUP}/vault.yml"
BECOME_PASSWORD: Final = VaultRef("vault_become_password")
