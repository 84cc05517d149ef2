"""Inputs of Run:ai's releases besides chart and values, so that a plan can compare them.

``helm_release`` stores their digest on the revision that it makes (decision 30). So the plan
notices a run that was interrupted before helm, or a changed address, without any secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appliance.model.bundle.vendor.bundle import Generation, VendorBundle
from appliance.model.components.runai.values import generate_values
from appliance.model.state.cluster.prerequisites import BACKEND_RELEASE, CLUSTER_RELEASE

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired

TLS = "/etc/appliance/runai/backend"


def backend_arguments(desired: Desired, found: VendorBundle) -> list[str]:
    """Return the arguments of ``runai-adm``; empty for a bundle without it."""
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
    """Return each release's inputs, without any secret."""
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
