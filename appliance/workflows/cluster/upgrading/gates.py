"""Go or no-go before the first change: asks for the evidence, and has it judged.

What must not be here: a verdict (:mod:`appliance.model.upgrade.gates`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, TypeVar

from appliance.errors import ClusterError
from appliance.model.bundle.release.runai_versions import dotted, version_of_bundle
from appliance.model.components.control_plane.log_limits import log_limits
from appliance.model.node.drain import Forecast
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.upgrade.evidence import BundleEvidence, Evidence, Silence
from appliance.model.upgrade.gates import gates, stopping
from appliance.model.upgrade.handmade.carrying import (
    carried_cluster,
    carried_kubelet,
    carrier_of,
    losses_to_come,
)
from appliance.model.upgrade.losses import find_losses
from appliance.model.upgrade.observed import is_between_releases
from appliance.model.upgrade.points.left import left_of, space_left, what_is_left
from appliance.model.upgrade.points.nodes import days_beyond
from appliance.model.upgrade.points.versions import dropped
from appliance.model.upgrade.proof import versions_of
from appliance.model.upgrade.window import Clock
from appliance.workflows.cluster.foresight import out_of_service, to_judge
from appliance.workflows.cluster.upgrading.loads import bytes_of_images
from appliance.workflows.cluster.upgrading.look import POLL_SECONDS
from appliance.workflows.session.patience import API_SECONDS, Patience
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed
    from appliance.model.state.upgrade import UpgradeMark
    from appliance.model.upgrade.gates import Gate
    from appliance.model.upgrade.handmade.loss import Loss
    from appliance.model.upgrade.plan import UpgradePlan
    from appliance.model.upgrade.points.left import Left
    from appliance.workflows.cluster.upgrading.look import Seen, UpgradeResult
    from appliance.workflows.cluster.upgrading.request import UpgradeRequest
    from appliance.workflows.session.session import Session

# Certificates that end sooner are renewed in the middle of any upgrade.
SHORT_DAYS: Final = 7.0
LONGEST_DAYS: Final = 3660.0
T = TypeVar("T")
RUNAI_NAMESPACES: Final = ("runai", "runai-backend")


def judge(
    request: UpgradeRequest, session: Session, observed: Observed, found: UpgradeResult
) -> tuple[Gate, ...]:
    """Every point of the list; in the middle of a release, those of what is left to do.

    There versions differ for good reasons, and the plan judges those; etcd is asked before each
    step. What changed since it was judged is judged again: what somebody edited by hand, what ends
    or fills up in a pause, and what the nodes that are left lose. Between two releases everything
    is judged again.
    """
    if not found.plan.hops or not found.plan.steps or session.upgrade_evidence is None:
        return ()
    site, asked = request.desired.site, session.upgrade_evidence
    losses = _losses(request, session, observed, found.plan)
    accepted = accepted_by(request, found.mark)
    window = found.clock.of_plan(found.plan)
    runai = runai_version(request.desired, observed)
    left = _left(request, observed, found)
    space = _space(request, found, left)
    changes = space.runtimes_change
    asks_runai = changes and runai is not None
    known = replace(
        space,
        losses=losses,
        accepted=accepted,
        brought=log_limits(request.desired) if changes else {},
        runai_runtime=_answered(session, observed, asked.runai_runtime) if asks_runai else None,
        window_seconds=Silence("nobody has measured this release")
        if window.source == "unknown"
        else window.worst,
    )
    if left is not None:
        forecasts = to_judge(found.forecasts, out_of_service(observed))
        evidence = replace(known, forecasts=forecasts, evicted=frozenset(forecasts))
        return what_is_left(site, observed, evidence, left, found.plan.hops)
    evidence = replace(
        known,
        bundles=_bundles(request, session, found, _served(request, observed)),
        images_are_loaded=True,
        etcd=asked.statuses(site.control_plane),
        snapshot_follows=True,
        forecasts=_of_every_member(site.cluster_members, found.forecasts),
        deprecated=_answered(session, observed, asked.deprecated_uses),
        runai=runai,
    )
    return gates(site, observed, evidence, found.plan.hops)


def space_of(request: UpgradeRequest, observed: Observed, found: UpgradeResult) -> Evidence:
    """What the judgement of the disks goes by."""
    left = _left(request, observed, found)
    space = _space(request, found, left)
    return space if left is None else space_left(request.desired.site, space, left)


def _left(request: UpgradeRequest, observed: Observed, found: UpgradeResult) -> Left | None:
    """What is left of a release that is half-way; None between two releases."""
    if not is_half_way(request, observed, found.mark):
        return None
    return left_of(found.plan, found.mark.without if found.mark else ())


def _space(request: UpgradeRequest, found: UpgradeResult, left: Left | None) -> Evidence:
    """What comes to the nodes: new container runtimes, and the images that are not there yet."""
    steps = (*found.plan.steps, *found.plan.rest)
    batches = tuple(step.nodes for step in steps if step.kind == "runtime")
    changing = frozenset(name for batch in batches for name in batch)
    releases = [step.release for step in found.plan.steps] if left is None else left.releases
    return Evidence(
        runtimes_change=bool(changing),
        changing=changing,
        runtime_batches=batches,
        image_bytes=bytes_of_images(request, releases),
    )


def window_days(request: UpgradeRequest, session: Session, plan: UpgradePlan) -> float:
    """With how many days left a certificate stops the upgrade; 0 for a week or less, or unknown."""
    window = Clock(session.journal.read(), request.measured).of_plan(plan)
    days = 0.0 if window.source == "unknown" else days_beyond(window.worst)
    return min(round(days, 3), LONGEST_DAYS) if days > SHORT_DAYS else 0.0


def is_half_way(request: UpgradeRequest, observed: Observed, mark: UpgradeMark | None) -> bool:
    """Whether an upgrade is under way, and has changed something of the present release."""
    if mark is None or mark.over:
        return False
    return not is_between_releases(versions_of(request.desired.site, observed).values())


def accepted_by(request: UpgradeRequest, mark: UpgradeMark | None) -> frozenset[str]:
    """Names of settings that were given up: by this command, and by the ones before."""
    goes_on = mark is not None and not mark.over and mark.release == request.options.to
    return request.accepted | frozenset(mark.accepted if mark and goes_on else ())


def _losses(
    request: UpgradeRequest, session: Session, observed: Observed, plan: UpgradePlan
) -> tuple[Loss, ...] | Silence:
    """What the steps to come would drop."""
    asked, site = session.upgrade_evidence, request.desired.site
    if asked is None:
        return Silence("nothing was asked")
    members, carrier = site.cluster_members, carrier_of(request.desired)
    losses = _answered(session, observed, lambda: find_losses(asked.documents(members), carrier))
    if isinstance(losses, Silence):
        return losses
    return losses_to_come(losses, plan, versions_of(site, observed))


def _answered(session: Session, observed: Observed, ask: Callable[[], T | Silence]) -> T | Silence:
    """Ask again: after a kill, kubeadm goes on alone on its node, and restarts the API server.

    A silence counts after 90 s, or once the API was seen to answer after two of them.
    """
    patience, answers = Patience(session.clock, API_SECONDS), 0
    while isinstance(found := ask(), Silence):
        is_there = isinstance(session.cluster.read(observed.node_facts), Cluster)
        answers += is_there
        if answers > 1 or patience.is_over():
            return found
        session.observer.note(f"{found.reason}; asking again")
        session.clock.sleep(0.0 if is_there else POLL_SECONDS)
    return found


def carry(request: UpgradeRequest, session: Session, seen: Seen, accepted: frozenset[str]) -> None:
    """Write what site.yml holds of hand-made settings to where kubeadm renders from.

    Also where an upgrade goes on: what was written is no loss any more, and is not written again.

    Raises:
        PreflightFailed: a setting would be lost that nobody accepted.
        ClusterError: the settings could not be read or written.
    """
    asked, site = session.upgrade_evidence, request.desired.site
    if asked is None:
        return
    members = site.cluster_members
    carrier, patience = carrier_of(request.desired), Patience(session.clock, API_SECONDS)
    while isinstance(losses := find_losses(found := asked.documents(members), carrier), Silence):
        if patience.is_over():
            raise ClusterError(
                f"what kubeadm would drop could not be read: {losses.reason}",
                hint="run the same command again: it resumes here",
            )
        session.observer.note(f"{losses.reason}; reading it again")
        session.clock.sleep(POLL_SECONDS)
    come = losses_to_come(losses, seen.plan, versions_of(site, seen.observed))
    judged = dropped(Evidence(losses=come, accepted=accepted))
    refuse([gate.refusal() for gate in stopping(judged)])
    kubelet, cluster = carried_kubelet(found, losses, carrier), carried_cluster(found, losses)
    if kubelet is not None or cluster is not None:
        names = dict.fromkeys(loss.label for loss in losses if loss.carried)
        if names:
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


def _served(request: UpgradeRequest, observed: Observed) -> str | None:
    """The digest of the bundle that the services node serves."""
    facts = observed.node_facts.get(request.desired.site.services_node.name)
    found = facts.at("artifacts.bundle_digest") if facts else None
    return str(found) if found else None


def _bundles(
    request: UpgradeRequest, session: Session, found: UpgradeResult, served: str | None
) -> dict[str, BundleEvidence | Silence]:
    """Release of the path -> its bundle; every byte of those at hand is read."""
    needed = {step.release for step in found.plan.steps}
    asked: dict[str, BundleEvidence | Silence] = {}
    for hop in found.plan.hops:
        supply = request.supplies.get(hop.release)
        if supply is None and hop.release not in needed:
            asked[hop.release] = BundleEvidence(hop.release, later=True)
        elif supply is None:
            asked[hop.release] = Silence("no bundle was given, and the services node serves none")
        elif supply.bundle is None or supply.digest == served:
            asked[hop.release] = BundleEvidence(supply.manifest.release, mirrored=True)
        else:
            session.observer.note(f"checking every byte of the bundle of {hop.release}")
            faults = [str(one) for one in supply.bundle.faults()]
            if supply.signature is not None and supply.signature.fault is not None:
                faults.insert(0, f"a bundle without a valid signature: {supply.signature.fault}")
            asked[hop.release] = BundleEvidence(supply.manifest.release, tuple(faults))
    return asked


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
