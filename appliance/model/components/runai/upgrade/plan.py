"""Plan an upgrade of Run:ai: from which version to which, its steps, and what forbids it.

The way is that of the vendor's pages for 2.4 to 2.8. The volumes are kept and the database is
dumped before anything else changes; the vendor's bundle and the merged values come next, and helm
last. What must not be here: the table of versions (:mod:`appliance.model.bundle.runai_versions`),
or how a node does it (role ``runai_upgrade``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from appliance.model.bundle.vendor.bundle import GIGABYTE, VendorBundle
from appliance.model.components.runai import unmet
from appliance.model.components.runai.checks import UNPACK
from appliance.model.components.runai.origin import origins
from appliance.model.components.runai.upgrade.evidence import is_begun_by_helm
from appliance.model.components.runai.upgrade.hops import Hop, judge_hop
from appliance.model.components.runai.upgrade.points import (
    backup_open_points,
    open_points,
    prepare_open_points,
    save_open_points,
)
from appliance.model.components.runai.upgrade.record import (
    BegunUpgrade,
    ClaimedVolume,
    begun_upgrade,
    way_out,
)
from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.plan import PlannedStep, Reason, Refusal

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.findings import Finding
    from appliance.model.state.observed import Observed

CHECK: Final = "runai_upgrade"
BACKUP, PREPARE, UPGRADE = "runai_backup", "runai_prepare", "runai_upgrade"
ROLLBACK: Final = "runai_rollback"
# What an install refuses a vendor bundle of another version for.
OTHER_VERSION: Final = "vendor_bundle_version"
# Beside the vendor's bundle; a dump has the projects, users and jobs of an appliance, no metrics.
DUMP_GB: Final = 5


@dataclass(frozen=True)
class Part:
    """One of the two Helm releases.

    Attributes:
        release: its name.
        version: the version that runs; empty where it cannot be told.
        is_due: it is not of the target yet.
    """

    release: str
    version: str
    is_due: bool


@dataclass(frozen=True)
class UpgradePlan:
    """What will be done, and what forbids it.

    Attributes:
        current: the version that was installed before.
        target: the version of the vendor bundle.
        node: on which the steps run.
        steps: in order; empty where nothing is to be done.
        parts: backend and cluster part.
        hop: what the hop asks for; None where it is not carried out.
        volumes: those of Run:ai's claims.
        begun: the record of the same upgrade, begun before.
        refusals: what must be put right first.
    """

    current: str
    target: str
    node: str
    steps: tuple[PlannedStep, ...] = ()
    parts: tuple[Part, ...] = ()
    hop: Hop | None = None
    volumes: tuple[ClaimedVolume, ...] = ()
    begun: BegunUpgrade | None = None
    refusals: tuple[Refusal, ...] = ()

    @property
    def resumes(self) -> bool:
        """Whether it goes on with an upgrade that did not end."""
        return self.begun is not None and bool(self.steps)


@dataclass(frozen=True)
class _Scene:
    """Everything that a plan is made from."""

    desired: Desired
    observed: Observed
    target: VendorBundle
    volumes: tuple[ClaimedVolume, ...]

    @property
    def node(self) -> str:
        return self.desired.site.vendor_node.name

    @property
    def facts(self) -> NodeFacts | None:
        return self.observed.node_facts.get(self.node)

    @property
    def before(self) -> Desired:
        """What is asked for, with the bundle that is unpacked on the node."""
        return replace(self.desired, vendor_bundle=None)

    @property
    def begun(self) -> BegunUpgrade | None:
        found = begun_upgrade(self.facts)
        return found if found is not None and found.is_open else None

    @property
    def same(self) -> BegunUpgrade | None:
        """The open upgrade, if it leads to this bundle."""
        found = self.begun
        target = self.target
        return found if found and found.leads_to(target.sha256, target.version) else None

    @property
    def source(self) -> VendorBundle | None:
        """The bundle that was installed before the upgrade."""
        begun = self.begun
        record = begun.source if begun else self.facts.at("runai.bundle") if self.facts else None
        return VendorBundle.from_record(record) if record else None

    def refusal(self, seen: str, expected: str, hint: str) -> Refusal:
        return Refusal(self.node, CHECK, seen, expected, hint)


def plan_upgrade(
    desired: Desired,
    observed: Observed,
    volumes: Sequence[ClaimedVolume] = (),
    findings: Sequence[Finding] = (),
) -> UpgradePlan:
    """Plan the upgrade to the vendor bundle of ``desired``.

    Args:
        desired: with the vendor bundle to upgrade to.
        observed: facts of every node, and the cluster's state.
        volumes: those that Run:ai's claims are bound to.
        findings: of the checks before an install, about the same facts.

    Raises:
        ValueError: ``desired`` has no vendor bundle.
    """
    target = desired.vendor_bundle
    if target is None:
        raise ValueError("an upgrade needs a vendor bundle")
    scene = _Scene(desired, observed, target, tuple(volumes))
    source, version = scene.source, target.version or ""
    plan = UpgradePlan(
        current=(source.version or "") if source else "",
        target=version,
        node=scene.node,
        parts=tuple(_parts(scene)),
        volumes=scene.volumes,
        begun=scene.same,
    )
    refusals = tuple(_impossible(scene))
    if refusals or (scene.begun is None and plan.current == version):
        return replace(plan, refusals=refusals)
    cluster = observed.cluster
    kubernetes = cluster.version if isinstance(cluster, Cluster) else ""
    hop = judge_hop(plan.current, version, kubernetes)
    if not isinstance(hop, Hop):
        return replace(plan, refusals=(scene.refusal(hop.seen, hop.expected, hop.first),))
    refusals = (*_bundle_faults(scene), *_found(findings), *_not_well(scene), *_no_space(scene))
    # One fault may be seen by two checks.
    return replace(
        plan, hop=hop, steps=tuple(_steps(scene, plan)), refusals=tuple(dict.fromkeys(refusals))
    )


def _impossible(scene: _Scene) -> Iterator[Refusal]:
    """Without these nothing is known of what is installed."""
    if scene.facts is None:
        yield scene.refusal("no facts", "an answer of the node", "see: appliance status")
    elif not isinstance(scene.observed.cluster, Cluster):
        yield scene.refusal(
            "no Kubernetes API that answers", "a running cluster", "see: appliance status"
        )
    elif scene.target.contents.faults or not scene.target.version:
        yield from _bundle_faults(scene)
    elif scene.source is None:
        yield scene.refusal(
            "no vendor bundle of an install", "an installed Run:ai", "install it: appliance install"
        )
    elif scene.begun is not None and scene.same is None:
        begun = scene.begun
        yield scene.refusal(
            f"an upgrade from {begun.source_version} to {begun.target_version} that did not end",
            "one upgrade at a time",
            way_out(begun, is_begun_by_helm(begun, scene.desired, scene.observed)),
        )


def _bundle_faults(scene: _Scene) -> Iterator[Refusal]:
    name = scene.target.contents.file_name
    for fault in scene.target.faults(scene.desired.release.versions.kubernetes):
        yield scene.refusal(
            f"{name}: {fault}", "a complete bundle", f"appliance runai inspect {name}"
        )
    if scene.target.crds is None:
        yield scene.refusal(
            f"{name} without runai-crds.yaml",
            "the definitions of the new version, which helm does not upgrade",
            "ask the vendor for them, or for a complete bundle",
        )


def _found(findings: Sequence[Finding]) -> Iterator[Refusal]:
    """Errors of the checks before an install, but for the one that an upgrade is the answer to."""
    for one in findings:
        if one.severity in ("error", "unseen") and one.check != OTHER_VERSION:
            yield Refusal(one.node, one.check, str(one.seen), str(one.expected), one.hint)


def _not_well(scene: _Scene) -> Iterator[Refusal]:
    """What is not as it should be before; within an upgrade that began, pods may be away."""
    cluster = scene.observed.cluster
    members = cluster.nodes.values() if isinstance(cluster, Cluster) else ()
    for member in members:
        if member.is_system and not member.ready:
            yield Refusal(
                member.name,
                CHECK,
                "a node with Run:ai's system role that is not Ready",
                "every such node Ready: the backend's pods restart there",
                "see what is wrong: appliance status",
            )
    if scene.begun is not None:
        return
    for text in open_points(scene.before, scene.observed):
        yield scene.refusal(
            text,
            "Run:ai installed and well, as site.yml says",
            "put it right first: appliance plan, then appliance install",
        )


def _no_space(scene: _Scene) -> Iterator[Refusal]:
    """Space for the dump, beside that for the bundle."""
    settings, facts = scene.desired.site.settings.runai, scene.facts
    if settings is None or facts is None or (scene.same and scene.same.dump):
        return
    unpacked = facts.at("runai.bundle.sha256") == scene.target.sha256
    bundle = 0 if unpacked else scene.target.needs_bytes(settings.minimum_free_gb).unpack
    need = bundle + DUMP_GB * GIGABYTE
    for held in facts.items("filesystems"):
        free = int(held.get("free_bytes") or 0)
        if UNPACK in held.get("for", ()) and free < need:
            yield scene.refusal(
                f"{free / GIGABYTE:.1f} GB free on {held['mount']}",
                f"{need / GIGABYTE:.1f} GB: {bundle / GIGABYTE:.1f} GB for the vendor bundle, "
                f"{DUMP_GB} GB for a dump of the database",
                f"make space: appliance node ssh {scene.node} -- sudo du -xh {held['mount']}",
            )


def _parts(scene: _Scene) -> Iterator[Part]:
    """Each release with the version that its revision was made from."""
    cluster, source = scene.observed.cluster, scene.source
    if not isinstance(cluster, Cluster):
        return
    for namespace, name in unmet.RELEASES:
        release = cluster.release(namespace, name)
        noted = release.origin_sha256 if release else None
        known = [bundle for bundle in (scene.target, source) if bundle is not None]
        versions = [
            bundle.version or ""
            for bundle in known
            if noted == values_digest(origins(scene.desired, bundle)[name])
        ]
        is_target = noted == values_digest(origins(scene.desired, scene.target)[name])
        deployed = release is not None and release.status == "deployed"
        yield Part(name, next(iter(versions), ""), not (is_target and deployed))


def _steps(scene: _Scene, plan: UpgradePlan) -> Iterator[PlannedStep]:
    texts = {
        BACKUP: tuple(backup_open_points(scene.desired, scene.observed, scene.volumes)),
        PREPARE: tuple(prepare_open_points(scene.desired, scene.observed)),
    }
    if not texts[PREPARE] and tuple(save_open_points(scene.desired, scene.observed)):
        texts[PREPARE] = ("the values of both releases are saved again",)
    for name, found in texts.items():
        if found:
            yield _planned(plan, name, found)
    due = [f"{part.release} is {part.version or 'of an unknown version'}" for part in plan.parts
           if part.is_due]  # fmt: skip
    disturbs = (
        "the backend's web page, logins and new jobs fail while its pods restart; running jobs go "
        "on",
    )
    yield replace(_planned(plan, UPGRADE, due or ["it was not verified yet"]), disturbs=disturbs)


def _planned(plan: UpgradePlan, name: str, texts: Sequence[str]) -> PlannedStep:
    return PlannedStep(name, (plan.node,), tuple(Reason(plan.node, text) for text in texts))
