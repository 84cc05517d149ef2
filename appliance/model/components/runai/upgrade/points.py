"""The post-conditions of an upgrade's steps: what of each is still open.

What must not be here: what follows from it (:mod:`appliance.model.components.runai.upgrade.plan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from appliance.model.components.runai import component, unmet
from appliance.model.components.runai.upgrade.evidence import is_begun_by_helm
from appliance.model.components.runai.upgrade.record import (
    RETAIN,
    BegunUpgrade,
    ClaimedVolume,
    begun_upgrade,
)
from appliance.model.state.cluster.cluster import Cluster

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed

# Before helm begins, users still change the database: an older dump would lose what they did.
FRESH_SECONDS: Final = 3600.0
HOUR: Final = 3600.0


def open_points(desired: Desired, observed: Observed) -> Iterator[str]:
    """What of the step ``runai`` is not so, on all of its nodes that were seen."""
    for node in component.nodes(desired.site):
        if node.name in observed.node_facts:
            yield from unmet.runai(node, desired, observed)


def record_of(desired: Desired, observed: Observed) -> BegunUpgrade | None:
    """The record of an upgrade to the vendor bundle of ``desired``."""
    found = begun_upgrade(observed.node_facts.get(desired.site.vendor_node.name))
    target = desired.vendor_bundle
    return found if found and target and found.leads_to(target.sha256, target.version) else None


def has_another_file(desired: Desired, record: BegunUpgrade) -> bool:
    """Whether the upgrade was begun with another file of the same version."""
    target = desired.vendor_bundle
    return target is not None and record.target_sha256 != target.sha256


def helm_has_begun(desired: Desired, observed: Observed) -> bool:
    """Whether a release is not as before: then a dump of now is none of before."""
    return is_begun_by_helm(record_of(desired, observed), desired, observed)


def _revisions(cluster: Cluster) -> dict[str, int]:
    found = [cluster.release(namespace, name) for namespace, name in unmet.RELEASES]
    return {release.name: release.revision for release in found if release is not None}


def save_open_points(desired: Desired, observed: Observed) -> Iterator[str]:
    """What of the dump and the values is not there, or too old; nothing once helm has begun."""
    record = record_of(desired, observed)
    if record is not None and record.is_open and has_another_file(desired, record):
        yield f"it was begun with another file of Run:ai {record.target_version}"
    if helm_has_begun(desired, observed):
        return
    if record is None or record.rolled_back:
        yield "values and RunaiConfig are not saved"
    if record is None or record.rolled_back or record.dump is None:
        yield "the backend's database is not dumped"
        return
    cluster = observed.cluster
    if isinstance(cluster, Cluster) and _revisions(cluster) != dict(record.revisions):
        yield "the releases have other revisions than those that were saved"
        return
    facts = observed.node_facts.get(desired.site.vendor_node.name)
    now = facts.at("clock.epoch") if facts else None
    # A clock that was set back makes none of last month a new one.
    if now is not None and abs(now - record.dump.taken) > FRESH_SECONDS:
        hours = abs(now - record.dump.taken) / HOUR
        age = f"{hours:.0f} hours old" if record.dump.taken else "of an unknown time"
        yield f"the dump of the database is {age}, and users went on working since"


def backup_open_points(
    desired: Desired, observed: Observed, volumes: Sequence[ClaimedVolume]
) -> Iterator[str]:
    """What is not saved yet: volumes that would go with their claims, the dump, the values."""
    for volume in volumes:
        if volume.policy != RETAIN:
            yield (
                f"volume {volume.name} of {volume.claim} has the reclaim policy {volume.policy}, "
                f"not {RETAIN}"
            )
    yield from save_open_points(desired, observed)


def prepare_open_points(desired: Desired, observed: Observed) -> Iterator[str]:
    """What is not there yet of the new bundle, and whether the values were merged."""
    yield from unmet.bundle(desired.site.vendor_node, desired, observed)
    record = record_of(desired, observed)
    is_merged = record is not None and record.merged and not has_another_file(desired, record)
    if record is None or record.rolled_back or not is_merged:
        yield "the values of both releases are not merged with those of the new version"


def upgrade_open_points(desired: Desired, observed: Observed) -> Iterator[str]:
    """What is not as the new version should be."""
    yield from open_points(desired, observed)
    record = record_of(desired, observed)
    if record is None or not record.verified:
        yield "login, connection and projects were not verified after the upgrade"


def rollback_open_points(desired: Desired, observed: Observed) -> Iterator[str]:
    """What was not taken back."""
    record = record_of(desired, observed)
    if record is None or not record.rolled_back:
        yield "the releases were not taken back"
