"""Checks that a site's vault opens: for ``site check``, and before the first change of a playbook.

What must not be here: the choice of the password file, and the use of secrets
(``appliance.adapters.site.vault``).
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import Final

from appliance.adapters.site.files import VAULT, SiteCheck
from appliance.adapters.site.vault import HINT, ansible_vault_program, password_file, read_as_a_play
from appliance.errors import Refused
from appliance.model.site.files.diagnostics import SiteFault
from appliance.model.site.files.secrets import REGISTRY_PASSWORD, missing_in
from appliance.model.site.settings import Site

# Ansible's variable that names password files; playbooks inherit it.
IDENTITIES: Final = "ANSIBLE_VAULT_IDENTITY_LIST"


def is_password_at_hand(site: Site) -> bool:
    """Whether a password for the vault is available.

    Raises:
        Refused: the environment names a file that does not exist.
    """
    return password_file(site) is not None or bool(os.environ.get(IDENTITIES))


def require_open(site: Site) -> None:
    """Open the vault as a playbook will, to find errors before the first playbook.

    Raises:
        Refused: no password is available, or the vault lacks a secret; nothing was changed.
        ConfigError: the password is wrong, or the vault has no mapping; nothing was changed.
    """
    if not site.vault_file.is_file():
        return
    if not is_password_at_hand(site):
        raise Refused(f"{site.vault_file}: the vault's password is not known", hint=HINT)
    held = read_as_a_play(site.vault_file, password_file(site))
    fault = missing_in(held)
    if fault:
        raise Refused(f"{site.vault_file}: {fault}", hint=_how_to_add(site))


def _how_to_add(site: Site) -> str:
    """A command that adds the registry's password without printing it."""
    password = password_file(site)
    given = ["--vault-password-file", str(password)] if password else []
    words = [ansible_vault_program(), "edit", *given, str(site.vault_file)]
    return (
        f"EDITOR='sh -c \"echo {REGISTRY_PASSWORD}: $(openssl rand -hex 32) >> $0\"' "
        f"{shlex.join(words)}"
    )


def with_vault(check: SiteCheck) -> SiteCheck:
    """The check with the vault's result; a warning if no password is available."""
    if check.site is None:
        return check
    file = str(check.site.directory / VAULT)
    try:
        if is_password_at_hand(check.site):
            require_open(check.site)
            return check
    except Refused as error:
        more = f" ({'; '.join(error.details)})" if error.details else ""
        fault = SiteFault(file, 1, f"{error.message}{more}", error.hint or HINT)
        return replace(check, site=None, faults=(fault,))
    closed = SiteFault(file, 1, "the vault was not checked: no password available", HINT)
    return replace(check, warnings=(*check.warnings, closed))
