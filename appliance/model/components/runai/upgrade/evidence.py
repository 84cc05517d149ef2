"""What shows that helm has changed Run:ai since an upgrade began."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.model.bundle.vendor.bundle import VendorBundle
from appliance.model.components.runai import unmet
from appliance.model.components.runai.origin import origins
from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster.cluster import Cluster

if TYPE_CHECKING:
    from appliance.model.components.runai.upgrade.record import BegunUpgrade
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed


def is_begun_by_helm(record: BegunUpgrade | None, desired: Desired, observed: Observed) -> bool:
    """Whether a release is not as before the upgrade, whatever vendor bundle it leads to."""
    cluster = observed.cluster
    if record is None or record.rolled_back or not isinstance(cluster, Cluster):
        return False
    source = VendorBundle.from_record(record.source) if record.source else None
    before = origins(desired, source) if source else {}
    found = [cluster.release(namespace, name) for namespace, name in unmet.RELEASES]
    return any(
        release.revision != record.revisions.get(release.name)
        # Back at the old version, noted by a rollback that was killed later.
        and not (
            release.status == "deployed"
            and release.name in before
            and release.origin_sha256 == values_digest(before[release.name])
        )
        for release in found
        if release is not None
    )
