"""Gates of an upgrade that goes on in the middle of a release: of what is left to do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.model.upgrade.points.disks import disks
from appliance.model.upgrade.points.gpu_toolkit import gpu_toolkit
from appliance.model.upgrade.points.nodes import budgets, certificates, foreign_containers
from appliance.model.upgrade.points.versions import dropped, runai_runtime

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import Evidence
    from appliance.model.upgrade.path import Hop
    from appliance.model.upgrade.plan import UpgradePlan
    from appliance.model.upgrade.points.gate import Gate


@dataclass(frozen=True)
class Left:
    """What is left to do.

    Attributes:
        nodes: those that a step is left for.
        loading: those that lack images.
        releases: whose images they lack.
    """

    nodes: frozenset[str]
    loading: frozenset[str]
    releases: frozenset[str]


def left_of(plan: UpgradePlan, late: Collection[str]) -> Left:
    """What a plan leaves to do, of the release that is half-way and of those after it.

    Every node had the images of the release before its first change, but who was left out then.

    Args:
        plan: of what is left.
        late: nodes that were left out so far.
    """
    steps = (*plan.steps, *plan.rest)
    lacks = {
        (step.release, name)
        for step in steps
        if step.kind == "kubernetes_images"
        for name in step.nodes
        if step.release != plan.release or name in late
    }
    kinds = ("artifacts", "kubernetes_images")
    changing = {name for step in steps if step.kind not in kinds for name in step.nodes}
    loading = frozenset(name for _, name in lacks)
    return Left(loading | changing, loading, frozenset(release for release, _ in lacks))


def what_is_left(
    site: Site, observed: Observed, evidence: Evidence, left: Left, path: tuple[Hop, ...]
) -> tuple[Gate, ...]:
    """Judge what a pause may have changed, for the nodes and the steps that are left.

    Args:
        site: whose members are judged.
        observed: one look at nodes and API.
        evidence: what was asked; its forecasts are of the nodes that are in service.
        left: what is left.
        path: the releases on the way; not empty.
    """
    return (
        *dropped(evidence),
        *foreign_containers(site, observed, evidence),
        *runai_runtime(evidence, path),
        *gpu_toolkit(site, observed, evidence),
        *budgets(site, evidence),
        *certificates(site, observed, evidence),
        *disks(site, observed, space_left(site, evidence, left)),
    )


def space_left(site: Site, evidence: Evidence, left: Left) -> Evidence:
    """The evidence for what still comes to file systems: others have their images already."""
    members = {node.name for node in site.cluster_members}
    return replace(
        evidence,
        absent_images=dict.fromkeys(members - left.loading, ()),
        left_out=evidence.left_out | (members - left.nodes),
    )
