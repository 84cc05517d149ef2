"""Whether a site's vault opens: asked by ``site check``, and before the first change of a play.

What must not be here: which password file it is, and reading secrets for their own sake
(``appliance.adapters.vault``).
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appliance.adapters.site_files import VAULT, SiteCheck
from appliance.adapters.vault import HINT, ansible_vault_program, password_file, read_as_a_play
from appliance.errors import Refused
from appliance.model.site_faults import SiteFault
from appliance.model.site_secrets import REGISTRY_PASSWORD, missing_in

if TYPE_CHECKING:
    from appliance.model.site import Site

# Ansible's own variable that names passwords; plays inherit it.
IDENTITIES: Final = "ANSIBLE_VAULT_IDENTITY_LIST"


def is_password_at_hand(site: Site) -> bool:
    """Whether anything names a password of the vault.

    Raises:
        Refused: the environment names a file that is not there.
    """
    return password_file(site) is not None or bool(os.environ.get(IDENTITIES))


def require_open(site: Site) -> None:
    """Open the vault as a play will, so that no play is the first to find it closed.

    Raises:
        Refused: no password is at hand, or the vault lacks a secret; nothing was changed.
        ConfigError: the password is another's, or the vault holds no mapping; nothing was changed.
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
    """A command that adds the registry's password, and tells it to nobody."""
    found = password_file(site)
    given = ["--vault-password-file", str(found)] if found else []
    words = [ansible_vault_program(), "edit", *given, str(site.vault_file)]
    return (
        f"EDITOR='sh -c \"echo {REGISTRY_PASSWORD}: $(openssl rand -hex 32) >> $0\"' "
        f"{shlex.join(words)}"
    )


def with_vault(found: SiteCheck) -> SiteCheck:
    """The same check, and whether the vault opens; a warning where no password is at hand."""
    if found.site is None:
        return found
    file = str(found.site.directory / VAULT)
    try:
        if is_password_at_hand(found.site):
            require_open(found.site)
            return found
    except Refused as error:
        more = f" ({'; '.join(error.details)})" if error.details else ""
        fault = SiteFault(file, 1, f"{error.message}{more}", error.hint or HINT)
        return replace(found, site=None, faults=(fault,))
    closed = SiteFault(file, 1, "the vault was not opened: no password at hand", HINT)
    return replace(found, warnings=(*found.warnings, closed))
