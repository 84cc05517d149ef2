"""Asks everything that is judged before the first change of an upgrade.

What must not be here: the judgement (:mod:`appliance.model.upgrade.gates`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Protocol

from appliance.model.bundle.release.runai_versions import version_of_bundle
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.upgrade.carrying import carrier_of
from appliance.model.upgrade.evidence import BundleEvidence, Evidence, Silence
from appliance.model.upgrade.gates import Gate, gates
from appliance.model.upgrade.losses import find_losses

if TYPE_CHECKING:
    from appliance.model.node.drain import Forecast
    from appliance.model.site.settings import Node
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import DeprecatedUse, EtcdStatus
    from appliance.model.upgrade.losses import Documents
    from appliance.model.upgrade.plan import UpgradePlan
    from appliance.model.upgrade.window import Estimate
    from appliance.workflows.session.ports import Bundle

# What the images of Kubernetes 1.23.17 and 1.24.17 left in a node's store, with the old ones.
IMAGE_BYTES: Final = 1_300_000_000
# Where nobody has measured an upgrade: certificates have to be valid for a day.
UNMEASURED_SECONDS: Final = 86_400.0
RUNAI_NAMESPACES: Final = ("runai", "runai-backend")


class EtcdAsker(Protocol):
    """The members of etcd."""

    def statuses(self, asked: Sequence[Node]) -> tuple[EtcdStatus, ...] | Silence:
        """What each member says of itself, all asked at once."""


class HandmadeAsker(Protocol):
    """What people change behind kubeadm's back, and who uses deprecated APIs."""

    def documents(self, members: Iterable[Node]) -> Documents:
        """The documents; what could not be read says why."""

    def deprecated_uses(self) -> tuple[DeprecatedUse, ...] | Silence:
        """What every API server was asked for since it started."""


@dataclass(frozen=True)
class Askers:
    """Who is asked beside the nodes and the API.

    Attributes:
        bundle: of the release, on the control host; None where the mirror has it.
    """

    etcd: EtcdAsker
    handmade: HandmadeAsker
    bundle: Bundle | None = None


@dataclass(frozen=True)
class Foreseen:
    """What was worked out before.

    Attributes:
        forecasts: node -> what its eviction will do.
        window: how long the plan takes.
        mirrored: the release whose bundle the services node holds; empty: none, or unknown.
        accepted: names of losses that were acknowledged.
    """

    forecasts: Mapping[str, Forecast]
    window: Estimate
    mirrored: str = ""
    accepted: Collection[str] = ()


def judge(
    desired: Desired, observed: Observed, plan: UpgradePlan, foreseen: Foreseen, askers: Askers
) -> tuple[Gate, ...]:
    """Ask, and judge; nothing without a path, whose refusals come first."""
    if not plan.hops or not plan.steps:
        return ()
    evidence = gather(desired, observed, plan, foreseen, askers)
    return gates(desired.site, observed, evidence, plan.hops)


def gather(
    desired: Desired, observed: Observed, plan: UpgradePlan, foreseen: Foreseen, askers: Askers
) -> Evidence:
    """Ask everything; what does not answer is a silence with its reason."""
    site = desired.site
    members = [node for node in site.cluster_members if node.name not in plan.without]
    control_plane = [node for node in site.control_plane if node.name not in plan.without]
    documents = askers.handmade.documents(members)
    window = foreseen.window
    evicted = {name for step in plan.steps if step.kind == "nodes" for name in step.nodes}
    return Evidence(
        bundle=_bundle(desired, plan, foreseen, askers.bundle),
        images_are_loaded=True,
        etcd=askers.etcd.statuses(control_plane),
        snapshot_follows=True,
        forecasts=foreseen.forecasts,
        evicted=frozenset(evicted),
        losses=find_losses(documents, carrier_of(desired)),
        accepted=frozenset(foreseen.accepted),
        deprecated=askers.handmade.deprecated_uses(),
        runai=runai_version(desired, observed),
        window_seconds=UNMEASURED_SECONDS if window.source == "unknown" else window.worst,
        image_bytes=IMAGE_BYTES,
        left_out=frozenset(plan.without),
    )


def _bundle(
    desired: Desired, plan: UpgradePlan, foreseen: Foreseen, bundle: Bundle | None
) -> BundleEvidence | Silence:
    mirrored = foreseen.mirrored == plan.release
    if bundle is not None and not mirrored:
        faults = tuple(str(fault) for fault in bundle.faults())
        return BundleEvidence(bundle.manifest.release, faults)
    if mirrored:
        return BundleEvidence(plan.release, mirrored=True)
    held = desired.manifest.release if desired.manifest else "no bundle"
    return Silence(f"{held} at hand, and the services node holds {foreseen.mirrored or 'another'}")


def runai_version(desired: Desired, observed: Observed) -> str | Silence | None:
    """The version of Run:ai; None where neither the site nor the cluster has one.

    The node that unpacked the vendor's bundle knows it; else the name of the bundle tells it.
    """
    settings, cluster = desired.site.settings.runai, observed.cluster
    for facts in observed.node_facts.values():
        found = (facts.at("runai.bundle") or {}).get("version")
        if found:
            return str(found)
    if not isinstance(cluster, Cluster):
        return Silence("no API server answers")
    if not any(release.namespace in RUNAI_NAMESPACES for release in cluster.releases):
        return None
    named = version_of_bundle(PurePath((settings and settings.vendor_bundle) or "").name)
    if named is None:
        return Silence("Run:ai is installed, and its version is not known")
    return f"{named[0]}.{named[1]}"
