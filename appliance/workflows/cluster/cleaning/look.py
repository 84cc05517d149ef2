"""One look at everything that fills disks, and the verdict on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError
from appliance.model.backup.kept import absence
from appliance.model.plan.under_upgrade import under_way
from appliance.model.state.cluster.cluster import Cluster, ClusterState
from appliance.model.upkeep.care.items import Area, Item
from appliance.model.upkeep.care.records import Known, record_items
from appliance.model.upkeep.care.supply import Needs, Verdict, image_items, judge, supply_items
from appliance.workflows.cluster.backup import noted_backups
from appliance.workflows.cluster.backups.freshness import newest_backup
from appliance.workflows.cluster.cleaning.etcd import look_at_etcd
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.workflows.session.session import Session

NOTHING = Verdict({}, frozenset(), ())


@dataclass(frozen=True)
class Looked:
    """What is there, and what the roles may remove of it."""

    items: tuple[Item, ...]
    verdict: Verdict = NOTHING


def look(
    desired: Desired, session: Session, areas: Collection[Area], kept: Collection[str] = ()
) -> Looked:
    """Look at these areas.

    Args:
        desired: whose site.
        session: its ports.
        areas: what is looked at.
        kept: releases that the operator keeps.

    Raises:
        NodeUnreachable: the services node does not answer.
        ClusterError: it could not be read.
    """
    items: list[Item] = []
    verdict = NOTHING
    if "etcd" in areas:
        items += look_at_etcd(desired.site, session.care.etcd)
    if {"registry", "mirror", "images"} & set(areas):
        observed, _ = observe(desired.site, session.nodes, session.cluster)
        more, verdict = _supplies(desired, session, areas, observed.cluster, kept)
        items += more
        cluster: ClusterState | None = observed.cluster
    elif "records" in areas:
        cluster = session.cluster.read({})
    else:
        cluster = None
    if "records" in areas:
        items += _records(desired, session, cluster)
    return Looked(tuple(items), verdict)


def _supplies(
    desired: Desired,
    session: Session,
    areas: Collection[Area],
    cluster: ClusterState,
    kept: Collection[str],
) -> tuple[list[Item], Verdict]:
    site, care = desired.site, session.care
    own = site.settings.external_registry is None
    supply = care.supply.supply(site.services_node, own_registry=own)
    members = site.cluster_members
    images, silent = care.supply.images(members, desired.release.runtime.name)
    needs = _needs(desired, session, cluster, silent, kept)
    verdict = judge(supply, needs, site.image_prefix, images)
    items = [*supply_items(site.services_node.name, supply, needs, verdict, areas)]
    if "images" in areas:
        items += image_items(images, verdict, site.image_prefix)
    return items, verdict


def _needs(
    desired: Desired,
    session: Session,
    cluster: ClusterState,
    silent: Collection[str],
    kept: Collection[str],
) -> Needs:
    """What must stay; unknown where somebody who may need something does not answer."""
    named, unread = _backups(desired, session)
    releases = frozenset({desired.release.name, *named, *kept})
    if unread and not kept:
        why = f"{unread}; name them: --keep-release RELEASE"
        return Needs(releases=releases, unknown=why)
    if not isinstance(cluster, Cluster):
        why = "the Kubernetes API does not answer, so what pods need is unknown"
        return Needs(releases=releases, unknown=why)
    upgrade = under_way(desired.site, cluster)
    if upgrade:
        return Needs(releases=releases, unknown=upgrade[0].seen)
    known = {node.name for node in desired.site.cluster_members}
    others = sorted(name for name in cluster.nodes if name not in known)
    try:
        pods = session.care.pod_images()
    except ApplianceError as error:
        return Needs(releases=releases, unknown=error.message)
    unknown = next(iter(silent), "")
    if others:
        unknown = f"{others[0]} is a member that the site does not have: what it runs is unknown"
    return Needs(pods, releases, unknown)


def _backups(desired: Desired, session: Session) -> tuple[frozenset[str], str]:
    """The releases of kept backups, and why not all of them are known; empty where they are.

    A place that is not mounted looks like one without backups.
    """
    named, unread = _in_places(desired, session)
    newest = newest_backup(desired.site, session)
    if newest is None or newest.sidecar is None:
        return named, unread or (newest.unread if newest else "")
    about = newest.sidecar.about
    if not named and not unread:
        unread = (
            f"the newest backup, {about.id}, is not where the site keeps backups: the releases of "
            "those that are there are unknown"
        )
    return named | {about.release}, unread


def _in_places(desired: Desired, session: Session) -> tuple[frozenset[str], str]:
    """The same of the site's place, and of each to which a backup went by the journal."""
    wanted, noted = desired.site.settings.backup, noted_backups(session.journal)
    places = list(noted)
    if wanted is not None:
        # As the journal names a folder; an address stays as it is.
        is_folder = wanted.to.startswith("/")
        places.insert(0, str(PurePosixPath(wanted.to)) if is_folder else wanted.to)
    releases: frozenset[str] = frozenset()
    unread = ""
    for place in dict.fromkeys(places):
        kept = session.care.backups(place)
        releases |= kept.releases
        unread = unread or kept.unknown or absence(place, kept, noted.get(place, {}))
    return releases, unread


def _records(desired: Desired, session: Session, cluster: ClusterState | None) -> list[Item]:
    marks = None
    if isinstance(cluster, Cluster):
        marks = [text for node in cluster.nodes.values() for text in node.annotations.values()]
    runs = session.care.runs
    names = [node.name for node in desired.site.nodes]
    known = Known(session.journal.read(), marks, names, session.clock.now())
    return [*record_items(runs.runs(), runs.sizes(), known)]
