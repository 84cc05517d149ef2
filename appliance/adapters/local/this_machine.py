"""The control host as workflows see it: what it has, and what only it knows of a site."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

from appliance.model.checks.control_host import (
    HardwareCatalogue,
    LocalKnowledge,
    MissingPrograms,
)
from appliance.model.checks.health.login import PASSWORD_NAME
from appliance.model.programs import Use, install_command
from appliance.model.site.settings import Site


class ThisMachine:
    """The machine that this process runs on."""

    def hardware(self) -> HardwareCatalogue:
        """The hardware that this installation knows.

        Raises:
            ConfigError: a file is not what it should be.
        """
        from appliance.adapters.local.hardware_models import load_hardware, load_role_minima

        return HardwareCatalogue(load_hardware(), load_role_minima())

    def lacks_to_bring(self) -> MissingPrograms:
        """The programs that bundles are brought with, as far as they are missing here."""
        from appliance.adapters.local.control_host import family_here, missing_here

        missing = missing_here(Use.BRING)
        return MissingPrograms(
            socket.gethostname(), missing, install_command(missing, family_here())
        )

    def knows(self, site: Site, *, opens_vault: bool) -> LocalKnowledge:
        """What this machine's resolver, vault, files and clock say of the site's backend."""
        from appliance.adapters.local.control_host import resolve
        from appliance.adapters.runai.backend_certificate import (
            open_vault,
            read_backend_certificate,
        )

        vault = open_vault(site) if opens_vault else None
        return LocalKnowledge(
            resolved=resolve([site.runai_domain]),
            clock=time.time(),
            certificate=read_backend_certificate(site, vault),
            login_known=login_known(site, vault),
        )


def login_known(site: Site, vault: Mapping[str, str] | None) -> bool | None:
    """Whether the vault holds the backend's password; None where it is closed, or not there."""
    if vault is None or not site.vault_file.is_file():
        return None
    return bool(vault.get(PASSWORD_NAME, "").strip())
