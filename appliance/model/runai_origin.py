"""What Run:ai's releases are made from beside chart and values: what a plan can compare.

``helm_release`` notes the digest of this on the revision that it made (decision 30), so that a run
that was cut off before helm, or a changed address, makes the step due without any secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.model.runai_values import generate_values
from appliance.model.surroundings import BACKEND_RELEASE, CLUSTER_RELEASE
from appliance.model.vendor_bundle import Generation, VendorBundle

if TYPE_CHECKING:
    from appliance.model.desired import Desired

TLS = "/etc/appliance/runai/backend"


def backend_arguments(desired: Desired, found: VendorBundle) -> list[str]:
    """How ``runai-adm`` is called; empty for a bundle that has no such way."""
    site = desired.site
    if found.version is None or found.generation is Generation.CONTROL_PLANE:
        return []
    nfs = site.settings.nfs
    return generate_values(
        found.version,
        domain=site.runai_domain,
        addresses=site.runai_addresses,
        certificate=f"{TLS}.crt",
        key=f"{TLS}.key",
        nfs=(nfs.server, nfs.path) if nfs else None,
        registry=site.settings.registry,
    )


def origins(desired: Desired, found: VendorBundle) -> dict[str, dict[str, Any]]:
    """Release -> what it is made from; no secret among it."""
    runai = desired.site.settings.runai
    common = {"bundle": found.sha256, "registry": desired.site.settings.registry}
    return {
        BACKEND_RELEASE: {**common, "arguments": backend_arguments(desired, found)},
        CLUSTER_RELEASE: {
            **common,
            "domain": desired.site.runai_domain,
            "cluster": runai.cluster_name if runai else "",
            "values_file": desired.cluster_values_sha256 or "",
        },
    }
