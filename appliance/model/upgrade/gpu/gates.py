"""Go or no-go before the first change of the GPU stack; what is not known is never a go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.model.bundle.release.gpu_matrix import numbers_of, pair_fault, step_fault
from appliance.model.bundle.release.gpu_operator_versions import REFUSED_BECAUSE, is_refused
from appliance.model.components.gpu.driver import absent_driver
from appliance.model.components.gpu.in_turn import node_by_node
from appliance.model.components.gpu.operator import NAMESPACE, absent_images, operator_values
from appliance.model.node.drain import stopping
from appliance.model.state.cluster.cluster import Cluster, GpuOperator
from appliance.model.upgrade.evidence import BundleEvidence, Silence
from appliance.model.upgrade.gpu.plan import order_of
from appliance.model.upgrade.points.gate import Gate, Point
from appliance.model.upgrade.points.versions import operator_gates
from appliance.model.upgrade.versions import parse

if TYPE_CHECKING:
    from appliance.model.node.drain import Forecast
    from appliance.model.state.desired import Desired
    from appliance.model.state.findings import Finding
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.gpu.observed import GpuNode, GpuSituation
    from appliance.model.upgrade.gpu.target import Target

# What an install refuses, and this upgrade is the answer to.
ANSWERED: Final = ("gpu_driver", "gpu_operator_upgrade")
MOST_FAULTS: Final = 20

_BUNDLE: Final = Point("bundle", "the verified bundle of the release, with the whole GPU stack")
_RELEASE: Final = Point("release", "the Kubernetes of the bundle's release on every node")
_OPERATOR: Final = Point("gpu-operator", "one step of NVIDIA's from the operator that runs")
_MATRIX: Final = Point("matrix", "only pairs of operator and driver that NVIDIA names")
_KUBERNETES: Final = Point("kubernetes", "an operator that runs on this Kubernetes")
_RUNAI: Final = Point("runai", "an operator that Run:ai takes")
_DRIVER: Final = Point("driver", "a driver from the bundle's packages, and no newer version")
_MANAGER: Final = Point("fabric-manager", "a fabric manager of exactly the driver's version")
_OPERANDS: Final = Point("operands", "operands that restart Docker on empty nodes only")
_NODES: Final = Point("nodes", "every node with GPUs answers, is Ready, and in service")
_EVICTIONS: Final = Point("evictions", "evictions that can end, and stop no service")
_CHECKS: Final = Point("checks", "the checks of an install, but for the versions of the GPU stack")
_NO_API: Final = Silence("no API server answers", "see what is wrong: appliance status")
_OTHER: Final = "use a bundle whose operator NVIDIA runs on this Kubernetes"


@dataclass(frozen=True)
class GpuEvidence:
    """What was asked besides one look.

    Attributes:
        bundle: the bundle at hand, or in the mirror.
        forecasts: node that goes out of service -> what its eviction does.
        findings: of the checks before an install, about the same facts.
        allow_outage: a service may be away.
    """

    bundle: BundleEvidence | Silence
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    allow_outage: bool = False


def gpu_gates(
    desired: Desired,
    observed: Observed,
    target: Target,
    found: GpuSituation,
    evidence: GpuEvidence,
) -> tuple[Gate, ...]:
    """Judge every point; several gates of one name speak of several nodes."""
    return (
        *_bundle(desired, target, evidence.bundle),
        *_release(desired, found),
        *_operator(target, found),
        *_matrix(target, found),
        *_kubernetes(observed, target),
        *_runai(desired, target),
        *_driver(target, found),
        *_fabric_manager(target, found),
        *_operands(desired, target),
        *_nodes(found),
        *_evictions(evidence),
        *_checks(evidence.findings),
    )


def _bundle(desired: Desired, target: Target, found: BundleEvidence | Silence) -> tuple[Gate, ...]:
    manifest, build = desired.manifest, "build the bundle again, and pass it: --bundle DIR"
    if isinstance(found, Silence):
        return (_BUNDLE.unknown(found, build),)
    absent = [] if target.operator else ["the GPU Operator's chart"]
    if manifest is not None:
        absent += [f"image {name}" for name in absent_images(manifest, target.mode)]
        absent += absent_driver(manifest) if target.mode == "host" else []
    faults = [_BUNDLE.stop(fault, build) for fault in found.faults[:MOST_FAULTS]]
    if absent:
        faults.append(_BUNDLE.stop(f"a bundle without {', '.join(absent)}", build))
    where = "in the mirror" if found.mirrored else "verified; the run brings it to the mirror"
    return _BUNDLE.all_of(faults, f"{target.release}: {target.words}; {where}")


def _release(desired: Desired, found: GpuSituation) -> tuple[Gate, ...]:
    """A bundle of another Kubernetes in the mirror would break every other command."""
    wanted, release = parse(desired.kubernetes_version), desired.release.name
    cure = f"upgrade Kubernetes first: appliance cluster upgrade --to {release}"
    faults = [
        _RELEASE.stop(f"Kubernetes {version}, where {release} has {wanted}", cure, name)
        for name, version in found.kubernetes.items()
        if parse(version) != wanted
    ]
    return _RELEASE.all_of(faults, f"{desired.kubernetes_version}")


def _operator(target: Target, found: GpuSituation) -> tuple[Gate, ...]:
    if not found.operator:
        silence = Silence("no GPU Operator runs, or its version is not told")
        return (_OPERATOR.unknown(silence, "install it: appliance install"),)
    fault, cure = step_fault(found.operator, target.operator)
    if fault:
        return (_OPERATOR.stop(fault, cure),)
    return (_OPERATOR.go(f"{found.operator} to {target.operator}"),)


def _matrix(target: Target, found: GpuSituation) -> tuple[Gate, ...]:
    """The pair at the end, and every pair on the way there."""
    cure = "use a bundle whose operator and driver NVIDIA names together"
    drivers = [target.driver] if target.driver else list(found.drivers)
    faults = [
        _MATRIX.stop(fault, cure)
        for driver in drivers
        if (fault := pair_fault(target.operator, driver))
    ]
    if not faults and found.operator and not order_of(target, found):
        old = next(one for one in found.drivers if pair_fault(target.operator, one))
        instead = pair_fault(found.operator, target.driver)
        if target.mode == "container":
            instead = "a driver in a container cannot come before its operator"
        faults = [
            _MATRIX.stop(
                f"{pair_fault(target.operator, old)}; {instead}",
                "first upgrade to a bundle with a driver that both operators take",
            )
        ]
    return _MATRIX.all_of(faults, f"operator {target.operator}, driver {', '.join(drivers)}")


def _kubernetes(observed: Observed, target: Target) -> tuple[Gate, ...]:
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        return (_KUBERNETES.unknown(_NO_API, ""),)
    read = {version for node in cluster.nodes.values() if (version := parse(node.version))}
    minors = sorted({(version.major, version.minor) for version in read})
    one = GpuOperator(NAMESPACE, version=target.operator)
    faults = tuple(operator_gates(_KUBERNETES, one, minors, _OTHER))
    return _KUBERNETES.all_of(faults, f"GPU Operator {target.operator}")


def _runai(desired: Desired, target: Target) -> tuple[Gate, ...]:
    if desired.site.settings.runai is None:
        return (_RUNAI.go("the site has no Run:ai"),)
    if is_refused(target.operator):
        cure = "use a bundle with GPU Operator 22.9 or later"
        return (_RUNAI.stop(f"GPU Operator {target.operator}: {REFUSED_BECAUSE}", cure),)
    return (_RUNAI.go(f"GPU Operator {target.operator}"),)


def _driver(target: Target, found: GpuSituation) -> tuple[Gate, ...]:
    if target.mode == "preinstalled":
        return (_DRIVER.go("the site's own, which is left alone"),)
    faults = [gate for node in found.nodes.values() for gate in _driver_of(target, node)]
    return _DRIVER.all_of(faults, target.driver or "none")


def _driver_of(target: Target, node: GpuNode) -> Iterator[Gate]:
    now, to = numbers_of(node.driver), numbers_of(target.driver)
    if not node.driver:
        return
    if now is None or to is None:
        silence = Silence(f"driver {node.driver}, which cannot be compared with {target.driver}")
        yield _DRIVER.unknown(silence, "see what runs: appliance status", node.name)
    elif now > to:
        cure = f"use a bundle with driver {node.driver} or newer: a driver is not downgraded"
        yield _DRIVER.stop(f"driver {node.driver}, newer than {target.driver}", cure, node.name)
    # In the middle of the change of a branch the metapackage is gone; it was judged before.
    elif target.mode == "host" and not node.is_ours and not node.is_out:
        cure = (
            "keep it with gpu.driver: preinstalled in site.yml; or take the node out of service, "
            "remove that driver, and reboot"
        )
        yield _DRIVER.stop(f"driver {node.driver}, from no package of a bundle", cure, node.name)


def _fabric_manager(target: Target, found: GpuSituation) -> tuple[Gate, ...]:
    joined = [node for node in found.nodes.values() if node.nvswitches]
    faults = []
    for node in joined if target.mode != "preinstalled" else ():
        if target.fabric_manager != target.driver:
            had = f"fabric manager {target.fabric_manager}" if target.fabric_manager else "none"
            cure = f"build the bundle again with the fabric manager {target.driver}"
            faults.append(_MANAGER.stop(f"{had} in the bundle", cure, node.name))
    well = f"{target.fabric_manager}, as the driver" if joined else "no node has NVSwitches"
    return _MANAGER.all_of(faults, well)


def _operands(desired: Desired, target: Target) -> tuple[Gate, ...]:
    """A site's own values for the whole chart may let them roll at once."""
    if not target.waits or desired.manifest is None:
        return (_OPERANDS.go("none of them restarts Docker"),)
    values = operator_values(node_by_node(desired), desired.manifest)
    if (values.get("daemonsets") or {}).get("updateStrategy") == "OnDelete":
        return (_OPERANDS.go("they wait for their node"),)
    cure = "add to it: daemonsets: {updateStrategy: OnDelete}"
    return (_OPERANDS.stop("gpu_operator_values in role_overrides, which lets them roll", cure),)


def _nodes(found: GpuSituation) -> tuple[Gate, ...]:
    faults = [gate for node in found.nodes.values() for gate in _state(node, found)]
    return _NODES.all_of(faults, f"{len(found.nodes)} of {len(found.nodes)}")


def _state(node: GpuNode, found: GpuSituation) -> Iterator[Gate]:
    name = node.name
    if name in found.away or not node.seen:
        why = found.away.get(name, "no facts").removeprefix(f"{name}: ")
        cure = (
            "check that it is powered on and answers ping; "
            f"if it is lost: appliance node remove {name}"
        )
        yield _NODES.stop(why, cure, name)
    elif not node.member:
        yield _NODES.stop("no member of the cluster", "appliance install", name)
    elif node.maintenance is not None and not node.is_out:
        cure = f"appliance node return {name}"
        yield _NODES.stop(node.maintenance.sentence(), cure, name)
    elif not node.ready and not node.is_out:
        yield _NODES.stop("not Ready", "see why: appliance status", name)


def _evictions(evidence: GpuEvidence) -> tuple[Gate, ...]:
    stops = stopping(evidence.forecasts, allow_outage=evidence.allow_outage)
    # What stops one says it all.
    faults = [
        replace(_EVICTIONS.stop(concern.on(name), concern.cure, name), expected="")
        for name, concern in stops
    ]
    return _EVICTIONS.all_of(faults, f"{len(evidence.forecasts)} nodes can be emptied")


def _checks(findings: Sequence[Finding]) -> tuple[Gate, ...]:
    faults = [
        _CHECKS.stop(f"{one.check}: {one.seen}, expected {one.expected}", one.hint, one.node)
        for one in findings
        if one.severity in ("error", "unseen") and one.check not in ANSWERED
    ]
    return _CHECKS.all_of(faults, "passed")
