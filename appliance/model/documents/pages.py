"""Texts that many hints share: paths of operations pages, and the command that edits a vault."""

from __future__ import annotations

from pathlib import Path

# In the site's directory; the file is there where the password was made for the site.
VAULT_EDIT = (
    "ansible-vault edit --vault-password-file .appliance/vault-password group_vars/all/vault.yml"
)
_DOCS = Path(__file__).resolve().parents[2] / "docs"
OPERATIONS = _DOCS / "operations"
# What is protected from whom, and what is not.
SECURITY = _DOCS / "security.md"


def page(name: str) -> str:
    """The path of one page on this machine, for a hint."""
    return str(OPERATIONS / f"{name}.md")
