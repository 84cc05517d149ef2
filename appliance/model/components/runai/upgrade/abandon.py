"""Drop an upgrade of Run:ai that began and changed nothing of Run:ai yet, judged by evidence.

What must not be here: taking back what helm changed (that is what a failed upgrade does), or how
the node does it (role ``runai_upgrade``, which judges again).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from appliance.model.components.runai.upgrade.evidence import is_begun_by_helm
from appliance.model.components.runai.upgrade.plan import CHECK, ROLLBACK, UpgradePlan
from appliance.model.components.runai.upgrade.record import BegunUpgrade, begun_upgrade
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.plan import PlannedStep, Reason, Refusal

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed

KEPT: Final = "reclaim policies, dumps and saved values stay; the bundle before counts again"


def plan_abandon(desired: Desired, observed: Observed) -> UpgradePlan:
    """Plan to drop the upgrade that did not end; without one, nothing is to be done."""
    node = desired.site.vendor_node.name
    begun = begun_upgrade(observed.node_facts.get(node))
    if begun is None or not begun.is_open:
        return UpgradePlan("", "", node)
    text = f"an upgrade from {begun.source_version} to {begun.target_version} did not end"
    return UpgradePlan(
        begun.source_version,
        begun.target_version,
        node,
        steps=(PlannedStep(ROLLBACK, (node,), (Reason(node, text),)),),
        begun=begun,
        refusals=tuple(_refusals(node, begun, desired, observed)),
    )


def _refusals(
    node: str, begun: BegunUpgrade, desired: Desired, observed: Observed
) -> Iterator[Refusal]:
    if not isinstance(observed.cluster, Cluster):
        yield Refusal(
            node,
            CHECK,
            "no Kubernetes API that answers",
            "one that tells the revisions of Run:ai",
            "see: appliance status",
        )
    elif is_begun_by_helm(begun, desired, observed):
        yield Refusal(
            node,
            CHECK,
            f"a release of Run:ai that helm changed since {begun.source_version}",
            "releases as they were before the upgrade",
            f"end it, with any complete vendor bundle of {begun.target_version}: "
            "appliance runai upgrade FILE; it takes the releases back if it fails",
        )
