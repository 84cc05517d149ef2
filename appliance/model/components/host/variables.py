"""The variables of role ``host_base``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.site.vault_ref import CA_CERTIFICATE, CA_KEY, Vars

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun


def variables(run: PlannedRun) -> Vars:
    """The names that every node knows, and the authority whose certificates roles issue."""
    names = run.desired.host_names
    return {
        "host_base_hosts": {address: list(known) for address, known in names.items()},
        "site_certificate_ca_certificate": CA_CERTIFICATE,
        "site_certificate_ca_key": CA_KEY,
    }
