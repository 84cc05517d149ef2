"""Checks that a site's vault opens: for ``site check``, and before the first change of a playbook.

What must not be here: the choice of the password file, and the use of secrets
(``appliance.adapters.site.vault``).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from appliance.adapters.site.files import VAULT, SiteCheck, restore_of
from appliance.adapters.site.vault import HINT, ansible_vault_program, password_file, read_as_a_play
from appliance.errors import Refused
from appliance.model.checks.site.vault import vault_warnings
from appliance.model.site.files.diagnostics import SiteFault
from appliance.model.site.files.secrets import (
    REGISTRY_PASSWORD,
    missing_in,
    registry_secrets,
)
from appliance.model.site.settings import Site
from appliance.model.site.vault_ref import CA_FILE, CA_KEY

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
    open_vaults(site)


def open_vaults(site: Site) -> Mapping[str, str]:
    """Open the vault files as a playbook will; the secrets of the vault that all nodes get.

    Raises:
        Refused, ConfigError: as :func:`require_open` does.
    """
    if not site.vault_file.is_file():
        return {}
    if not is_password_at_hand(site):
        raise Refused(f"{site.vault_file}: the vault's password is not known", hint=HINT)
    password = password_file(site)
    held = read_as_a_play(site.vault_file, password)
    fault = missing_in(held, registry_secrets(site))
    if fault:
        raise Refused(f"{site.vault_file}: {fault}", hint=_how_to_add(site))
    authority = site.directory / CA_FILE
    names = {*held, *(read_as_a_play(authority, password) if authority.is_file() else ())}
    if CA_KEY.name not in names:
        raise Refused(
            f"{authority}: {CA_KEY.name} is missing: the site's CA cannot sign",
            hint=restore_of(CA_FILE),
        )
    return held


def _how_to_add(site: Site) -> str:
    """A command that adds the registry's password without printing it.

    Only the organisation knows the password of its own registry, so a person writes that one.
    """
    password = password_file(site)
    given = ["--vault-password-file", str(password)] if password else []
    words = [ansible_vault_program(), "edit", *given, str(site.vault_file)]
    if site.settings.external_registry is not None:
        lines = " and ".join(f"'{name}: PASSWORD'" for name in registry_secrets(site))
        return f"add {lines} with: {shlex.join(words)}"
    return (
        f"EDITOR='sh -c \"echo {REGISTRY_PASSWORD}: $(openssl rand -hex 32) >> $0\"' "
        f"{shlex.join(words)}"
    )


def with_vault(check: SiteCheck) -> SiteCheck:
    """The check with the vault's result; a warning if no password is available."""
    if check.site is None:
        return check
    site = check.site
    file = str(site.directory / VAULT)
    try:
        if is_password_at_hand(site):
            warned = (
                SiteFault(file, 1, problem, remedy)
                for problem, remedy in vault_warnings(site, open_vaults(site))
            )
            return replace(check, warnings=(*check.warnings, *warned))
    except Refused as error:
        problem, where = error.message, file
        for named in (site.directory / CA_FILE, site.vault_file):
            # The fault begins with the file's name already.
            if problem.startswith(f"{named}"):
                problem, where = problem.removeprefix(f"{named}").lstrip(": "), str(named)
        more = f" ({'; '.join(error.details)})" if error.details else ""
        fault = SiteFault(where, 1, f"{problem}{more}", error.hint or HINT)
        return replace(check, site=None, faults=(fault,))
    closed = SiteFault(file, 1, "the vault was not checked: no password available", HINT)
    return replace(check, warnings=(*check.warnings, closed))
