"""What an opened vault says: names that nothing reads, and the key of the site's CA.

What must not be here: opening a vault, and any secret in a message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from appliance.model.components.runai.backend_certificate import KEY_NAME
from appliance.model.components.runai.vendor_defaults import ADMIN_PASSWORD, SECRETS
from appliance.model.node.bmc.report import CA_NAME, PASSWORD_NAME, USER_NAME, vault_names
from appliance.model.site.files.diagnostics import did_you_mean
from appliance.model.site.files.secrets import (
    EXTERNAL_PASSWORD,
    MERGED,
    PULL_PASSWORD,
    REGISTRY_PASSWORD,
)
from appliance.model.site.settings import Site
from appliance.model.site.vault_ref import BECOME_PASSWORD, CA_CERTIFICATE, CA_FILE, CA_KEY

# Every name of a vault that this product reads.
KNOWN: Final = frozenset(
    {
        *(CA_CERTIFICATE.name, CA_KEY.name, BECOME_PASSWORD.name),
        *(REGISTRY_PASSWORD, EXTERNAL_PASSWORD, PULL_PASSWORD, *MERGED.values()),
        *(USER_NAME, PASSWORD_NAME, CA_NAME, KEY_NAME, ADMIN_PASSWORD, *SECRETS),
    }
)


def vault_warnings(site: Site, held: Collection[str]) -> Iterator[tuple[str, str]]:
    """What is allowed in a vault and worth a second look: the problem, and what to do.

    Args:
        site: whose vault.
        held: the names of the secrets in group_vars/all/vault.yml.
    """
    of_bmcs = {name for node in site.nodes for name in vault_names(node.name)}
    for name in sorted(set(held) - KNOWN - of_bmcs):
        yield f"nothing reads {name!r}", did_you_mean(name, KNOWN)
    if CA_KEY.name in held:
        yield (
            f"{CA_KEY.name} is a variable of every node here: ansible-inventory --list prints it",
            f"move the line to {CA_FILE}, which only a run reads: ansible-vault create {CA_FILE}",
        )
    runai = site.settings.runai
    if runai is not None and runai.cluster_values_file is None and ADMIN_PASSWORD not in held:
        yield (
            f"{ADMIN_PASSWORD} is missing: runai in site.yml needs it",
            "add it before the install: the password of runai.admin_user",
        )
