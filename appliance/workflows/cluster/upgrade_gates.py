"""Go or no-go before the first change: asks for the evidence, and has it judged.

What must not be here: a verdict (:mod:`appliance.model.upgrade.gates`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from appliance.errors import ClusterError
from appliance.model.bundle.release.runai_versions import dotted, version_of_bundle
from appliance.model.node.drain import Forecast
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.upgrade.carrying import carried_cluster, carried_kubelet, carrier_of
from appliance.model.upgrade.evidence import BundleEvidence, Evidence, Silence
from appliance.model.upgrade.gates import gates
from appliance.model.upgrade.losses import find_losses

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.gates import Gate
    from appliance.workflows.cluster.upgrade_look import UpgradeRequest, UpgradeResult
    from appliance.workflows.session.session import Session

# Layers are compressed on the way; what they take on a node is more.
UNPACKED: Final = 3
# A bundle has images of the GPU stack as well, which an upgrade does not load: the images of one
# release of Kubernetes took 1.3 GB of a node's store.
KUBERNETES_BYTES: Final = 1_300_000_000
RUNAI_NAMESPACES: Final = ("runai", "runai-backend")


def judge(
    request: UpgradeRequest, session: Session, observed: Observed, found: UpgradeResult
) -> tuple[Gate, ...]:
    """Every point of the list; none where an upgrade is under way, which was judged before.

    In the middle of an upgrade versions differ for good reasons, and the plan judges those.
    """
    begun = found.mark is not None and not found.mark.over
    if begun or not found.plan.hops or not found.plan.steps or session.upgrade_evidence is None:
        return ()
    site, asked = request.desired.site, session.upgrade_evidence
    window = found.clock.of_plan(found.plan)
    evidence = Evidence(
        bundle=_bundle(request, session),
        images_are_loaded=True,
        etcd=asked.statuses(site.control_plane),
        snapshot_follows=True,
        forecasts=_of_every_member(site.cluster_members, found.forecasts),
        losses=find_losses(asked.documents(site.cluster_members), carrier_of(request.desired)),
        accepted=request.accepted,
        deprecated=asked.deprecated_uses(),
        runai=runai_version(request.desired, observed),
        window_seconds=Silence("nobody has measured this release")
        if window.source == "unknown"
        else window.worst,
        image_bytes=_image_bytes(request),
    )
    return gates(site, observed, evidence, found.plan.hops)


def carry(request: UpgradeRequest, session: Session) -> None:
    """Write what site.yml holds of hand-made settings to where kubeadm renders from.

    Also where an upgrade goes on: what was written is no loss any more, and is not written again.

    Raises:
        ClusterError: the settings could not be read or written.
    """
    asked, site = session.upgrade_evidence, request.desired.site
    if asked is None:
        return
    found, carrier = asked.documents(site.cluster_members), carrier_of(request.desired)
    losses = find_losses(found, carrier)
    if isinstance(losses, Silence):
        raise ClusterError(
            f"what kubeadm would drop could not be read: {losses.reason}",
            hint="run the same command again: it resumes here",
        )
    kubelet, cluster = carried_kubelet(found, losses, carrier), carried_cluster(found, losses)
    if kubelet is not None or cluster is not None:
        names = dict.fromkeys(loss.name for loss in losses if loss.carried)
        session.observer.note(f"carried by site.yml: {', '.join(names)}")
        asked.carry(found, kubelet, cluster)


def _of_every_member(
    members: Sequence[Node], found: Mapping[str, Forecast]
) -> Mapping[str, Forecast]:
    """A node that is not emptied loses nothing."""
    return {
        node.name: found.get(node.name) or Forecast(node.name, (), (), (), (), {}, {})
        for node in members
    }


def _bundle(request: UpgradeRequest, session: Session) -> BundleEvidence | Silence:
    manifest = request.desired.manifest
    if manifest is None:
        return Silence("no bundle was given, and the services node holds none of this release")
    if session.bundle is None:
        return BundleEvidence(manifest.release, mirrored=True)
    session.observer.note("checking every byte of the bundle")
    return BundleEvidence(manifest.release, tuple(str(one) for one in session.bundle.faults()))


def _image_bytes(request: UpgradeRequest) -> int | Silence:
    manifest = request.desired.manifest
    if manifest is None:
        return Silence("the size of the images is in the bundle's manifest")
    sizes = (file.size for file in manifest.files if file.path.startswith("images/"))
    return min(UNPACKED * sum(sizes), KUBERNETES_BYTES)


def runai_version(desired: Desired, observed: Observed) -> str | Silence | None:
    """The version of Run:ai; None where neither the site nor the cluster has one.

    The node that unpacked the vendor's bundle knows it; else the bundle, or its name, tells it.
    """
    settings, cluster = desired.site.settings.runai, observed.cluster
    facts = observed.node_facts.get(desired.site.vendor_node.name)
    found = (facts.at("runai.bundle") or {}).get("version") if facts else None
    if found:
        return str(found)
    if not isinstance(cluster, Cluster):
        return Silence("no API server answers")
    if not any(release.namespace in RUNAI_NAMESPACES for release in cluster.releases):
        return None
    if desired.vendor_bundle is not None:
        return desired.vendor_bundle.version
    named = version_of_bundle(PurePath((settings and settings.vendor_bundle) or "").name)
    if named is None:
        return Silence("Run:ai is installed, and its version is not known")
    return dotted(named)
