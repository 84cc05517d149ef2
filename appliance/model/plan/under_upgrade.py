"""An upgrade that is under way is named in every plan, and refuses every other change.

What must not be here: the upgrade's own path (:mod:`appliance.model.upgrade`).
"""

from __future__ import annotations

from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import ClusterState
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Notice, Refusal
from appliance.model.state.upgrade import mark_of


def under_upgrade(
    desired: Desired, observed: Observed
) -> tuple[tuple[Notice, ...], tuple[Refusal, ...]]:
    """What a plan says of an upgrade, and whether it refuses to do anything."""
    mark = mark_of(observed.cluster)
    if mark is None or (mark.is_readable and desired.upgrading == mark.release):
        return (), ()
    node = desired.site.control_plane[0].name
    notice = Notice(node, f"{mark.sentence()}: {mark.command}")
    if mark.over:
        return (notice,), ()
    return (notice,), under_way(desired.site, observed.cluster)


def under_way(site: Site, cluster: ClusterState) -> tuple[Refusal, ...]:
    """The refusal of a command that may not run in the middle of an upgrade; none without one."""
    mark = mark_of(cluster)
    if mark is None or mark.over:
        return ()
    node, expected = site.control_plane[0].name, "no upgrade that is under way"
    return (Refusal(node, "upgrade", mark.sentence(), expected, mark.command),)


def renewed_later(node: str, cluster: ClusterState) -> bool:
    """Whether an upgrade will renew a node that lacks the release: its version is no fault yet."""
    mark = mark_of(cluster)
    return mark is not None and (not mark.over or node in mark.without)
