"""The variables of role ``api_oidc``, and what a joining control plane needs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.components.access import oidc
from appliance.model.site.vault_ref import CA_CERTIFICATE, Vars
from appliance.model.state.desired import Desired

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun


def variables(run: PlannedRun) -> Vars:
    """Flags and CA; nothing for a site without researchers' access."""
    desired = run.desired
    if not oidc.is_enabled(desired.site):
        return {}
    authority = CA_CERTIFICATE if desired.issuer_ca is None else desired.issuer_ca
    return {
        "api_oidc_flags": oidc.wanted_flags(desired),
        "api_oidc_ca_certificate": authority,
        # ClusterConfiguration names the file, so the API server of a joining node needs it.
        "kubeadm_control_plane_pki_files": {oidc.CA_FILE: authority},
    }


def probe_arguments(desired: Desired) -> tuple[str, ...]:
    """The issuer of logins that control-plane nodes are to reach."""
    if not oidc.is_enabled(desired.site):
        return ()
    authority = ("--issuer-ca", desired.issuer_ca) if desired.issuer_ca is not None else ()
    return ("--issuer", oidc.issuer_url(desired.site), *authority)
