"""What an upgrade of the GPU stack is asked for, what it finds, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appliance.errors import BundleRefused, ConfigError, NodeUnreachable
from appliance.model.plan.planner import choose
from appliance.model.plan.under_upgrade import under_way
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.upgrade.evidence import BundleEvidence, Silence
from appliance.model.upgrade.gpu.gates import ANSWERED, GpuEvidence, gpu_gates
from appliance.model.upgrade.gpu.observed import gpu_situation
from appliance.model.upgrade.gpu.plan import GpuPlan, plan_gpu_upgrade
from appliance.model.upgrade.gpu.points import open_of
from appliance.model.upgrade.gpu.target import Target, target_of
from appliance.workflows.cluster.foresight import foresee, to_judge
from appliance.workflows.session.survey import observe, refuse, require_evidence

if TYPE_CHECKING:
    from appliance.model.checks.preflight import Finding
    from appliance.model.node.drain import Forecast
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.journal import Run
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.points.gate import Gate
    from appliance.workflows.session.session import Session
    from appliance.workflows.session.survey import Preflight

OPERATOR: Final = "gpu upgrade: operator"
NODE: Final = "gpu upgrade: node"
SETTLE: Final = "gpu upgrade: settle"


@dataclass(frozen=True)
class GpuUpgradeRequest:
    """What was asked for, by whom.

    Attributes:
        desired: the site with the release that was asked for, and its bundle.
        writes_release: whether the release is written into site.yml first.
        allow_outage: go on although a service will be away.
        without_backup: begin although the newest backup is not fresh.
        pausing: while it lasts, an operator may ask for a pause; it yields whether one did.
    """

    desired: Desired
    run: Run
    writes_release: bool = False
    allow_outage: bool = False
    dry_run: bool = False
    without_backup: bool = False
    pausing: Callable[[], AbstractContextManager[Callable[[], bool]]] = field(
        default=lambda: nullcontext(lambda: False)
    )


@dataclass(frozen=True)
class GpuUpgradeResult:
    """How it ended.

    Attributes:
        plan: what was planned.
        gates: what was judged before the first change.
        forecasts: node -> what its eviction will do.
        durations: step -> seconds that its last verified run took on this site.
        done: it was carried out and verified.
        bundle: what was found of the bundle; its bytes are read once.
    """

    plan: GpuPlan
    gates: tuple[Gate, ...] = ()
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    durations: Mapping[str, float] = field(default_factory=dict)
    done: bool = False
    bundle: BundleEvidence | Silence | None = None


def require_target(desired: Desired) -> Target:
    """The GPU stack of the bundle.

    Raises:
        ConfigError: the site has no GPUs.
        BundleRefused: there is no bundle, or it is of another release or operating system.
    """
    if desired.site.settings.gpu is None:
        raise ConfigError(
            "the site has no section gpu: in site.yml: there is no GPU stack to upgrade",
            hint="see: appliance docs upgrade-the-gpu-stack",
        )
    release, system = desired.release.name, desired.site.settings.operating_system
    manifest, target = desired.manifest, target_of(desired)
    if target is None or manifest is None or (manifest.release, manifest.os) != (release, system):
        held = f"the bundle of {manifest.release} for {manifest.os}" if manifest else "no bundle"
        raise BundleRefused(
            f"found {held}, expected the bundle of {release} for {system}",
            hint="appliance gpu upgrade --bundle DIR (to build it: appliance bundle build "
            f"--release {release} --os {system} DIR)",
        )
    return target


def look(
    request: GpuUpgradeRequest,
    session: Session,
    target: Target,
    bundle: BundleEvidence | Silence | None = None,
) -> tuple[Observed, GpuUpgradeResult]:
    """Inspect everything, plan, and judge; nothing is changed.

    Args:
        request: what was asked for.
        session: the session.
        target: the GPU stack of the bundle.
        bundle: what a look before found of the bundle; None: its bytes are read, where it is to
            be copied.

    Raises:
        NodeUnreachable: no API server answers, or a node told too little of itself.
        PreflightFailed: an upgrade of Kubernetes is under way.
    """
    desired = request.desired
    observed, seen = observe(desired.site, session.nodes, session.cluster)
    if not isinstance(observed.cluster, Cluster):
        raise NodeUnreachable(
            "no Kubernetes API server answers: nothing can be upgraded",
            hint="see what is wrong: appliance status",
        )
    require_evidence(seen.node_facts)
    refuse(under_way(desired.site, observed.cluster))
    found = gpu_situation(desired, observed, target)
    choice, _ = choose(desired, observed)
    plan = plan_gpu_upgrade(target, found, open_of(desired, observed, target, choice.leader))
    out = {name for name, node in found.nodes.items() if node.is_out}
    forecasts = foresee([step.nodes for step in plan.steps if step.kind == "node"], session, out)
    bundle = bundle or _bundle(plan, session)
    evidence = GpuEvidence(
        bundle,
        to_judge(forecasts, out),
        session.preflight(desired, observed.node_facts, observed),
        request.allow_outage,
    )
    gates = gpu_gates(desired, observed, target, found, evidence) if plan.steps else ()
    result = GpuUpgradeResult(plan, gates, forecasts, session.journal.durations(), bundle=bundle)
    return observed, result


def _bundle(plan: GpuPlan, session: Session) -> BundleEvidence | Silence:
    """The bundle in the mirror; or the one at hand, every byte of it, before it is copied."""
    release = plan.target.release
    if not any(step.kind == "artifacts" for step in plan.steps):
        return BundleEvidence(release, mirrored=True)
    if session.bundle is None:
        return Silence("the services node lacks the bundle, and --bundle is missing")
    session.observer.note("checking every byte of the bundle")
    return BundleEvidence(release, tuple(str(one) for one in session.bundle.faults()))


def without_answered(preflight: Preflight) -> Preflight:
    """The checks of an install without those that this upgrade is the answer to.

    Steps of an install run in the middle of it: the bundle, and its images.
    """

    def asked(
        desired: Desired, facts: Mapping[str, NodeFacts], observed: Observed
    ) -> Sequence[Finding]:
        found = preflight(desired, facts, observed)
        return [one for one in found if one.check not in ANSWERED]

    return asked
