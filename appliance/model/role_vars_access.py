"""The variables of role ``api_oidc``, and what a joining control plane needs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.model import access
from appliance.model.vault_ref import CA_CERTIFICATE

if TYPE_CHECKING:
    from appliance.model.desired import Desired


def access_vars(desired: Desired) -> dict[str, Any]:
    """Flags and CA; nothing for a site without researchers' access."""
    if not access.is_enabled(desired.site):
        return {}
    authority = CA_CERTIFICATE if desired.issuer_ca is None else desired.issuer_ca
    return {
        "api_oidc_flags": access.wanted_flags(desired),
        "api_oidc_ca_certificate": authority,
        # ClusterConfiguration names the file, so the API server of a node that joins needs it.
        "kubeadm_control_plane_pki_files": {access.CA_FILE: authority},
    }
