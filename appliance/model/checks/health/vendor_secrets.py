"""Is one of the vendor's well-known secrets in force: the same one as at every other customer?"""

from __future__ import annotations

from typing import Final

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.documents.pages import page
from appliance.model.state.findings import Finding
from appliance.model.state.prerequisites import BACKEND_RELEASE, CLUSTER_RELEASE

RELEASES: Final = (("runai-backend", BACKEND_RELEASE), ("runai", CLUSTER_RELEASE))


def vendor_secrets(inputs: HealthInputs) -> Answers:
    """No release of Run:ai has a secret that stands in the vendor's published files."""
    if inputs.cluster is None or not inputs.has_backend:
        yield Skipped("Run:ai is not installed yet")
        return
    for namespace, name in RELEASES:
        release = inputs.cluster.release(namespace, name)
        if release is None:
            continue
        if release.vendor_defaults is None:
            yield Finding(
                "cluster",
                "vendor_secrets",
                "warning",
                f"release {name}, whose secrets nobody has compared with the vendor's",
                "a release that step runai has looked at",
                "appliance install --only runai --again",
            )
        elif release.vendor_defaults:
            yield Finding(
                "cluster",
                "vendor_secrets",
                "error",
                f"the vendor's published secret in release {name}: "
                f"{', '.join(release.vendor_defaults)}",
                "secrets of this site alone",
                f"less {page('runai-secrets')}",
            )
        else:
            yield f"{name} has none"
