"""Gates: the bundle, what runs on the new Kubernetes, and what kubeadm would drop."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from appliance.model.bundle.release import gpu_operator_versions, runai_versions
from appliance.model.bundle.release.runai_versions import dotted, minor_of
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.upgrade.evidence import (
    NOT_ASKED,
    BundleEvidence,
    DeprecatedUse,
    Silence,
)
from appliance.model.upgrade.points.gate import Gate, Point

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.cluster.cluster import GpuOperator
    from appliance.model.state.observed import Observed
    from appliance.model.upgrade.evidence import Evidence
    from appliance.model.upgrade.handmade.loss import Loss
    from appliance.model.upgrade.path import Hop

_MINOR: Final = re.compile(r"(\d{1,3})\.(\d{1,4})")
# What is named one by one; the rest is counted.
MOST_NAMED: Final = 20
# Each has to be acknowledged by name, so most of them are named.
MOST_LOSSES: Final = 100
_BUNDLE: Final = Point("bundle", "the verified bundle of each release on the way")
_RUNAI: Final = Point("runai", "a version of Run:ai that runs on every Kubernetes on the way")
_RUNTIME: Final = Point("runai-runtime", "the container runtime that the nodes will have")
_RUNTIME_KEY: Final = "runai-operator: {config: {global: {runtime: RUNTIME}}}"
_VALUES: Final = "helm get values runai-cluster -n runai, on a control-plane node"
_OPERATOR: Final = Point("gpu-operator", "a GPU Operator that runs on every Kubernetes on the way")
_DEPRECATED: Final = Point("deprecated-apis", "no use of an API that the release no longer has")
_NEWER_OPERATOR: Final = "first bring it to a version for both: appliance gpu upgrade"
_DROPPED: Final = Point("dropped", "no setting that kubeadm would silently drop")


def bundle(evidence: Evidence, path: Sequence[Hop]) -> tuple[Gate, ...]:
    """Each bundle is its release's, whole, and in the mirror or on its way there."""
    faults: list[Gate] = []
    well = []
    for hop in path:
        found = evidence.bundles.get(hop.release, NOT_ASKED)
        faults += _bundle_faults(hop.release, found)
        if isinstance(found, BundleEvidence):
            well.append(f"{hop.release}, {_where(found)}")
    return _BUNDLE.all_of(faults, "; ".join(well))


def _bundle_faults(release: str, found: BundleEvidence | Silence) -> Iterator[Gate]:
    build = f"appliance bundle build --release {release} DIR, then --bundle DIR"
    if isinstance(found, Silence):
        yield _BUNDLE.unknown(Silence(f"{release}: {found.reason}", found.cure), build)
    elif found.release != release:
        yield _BUNDLE.stop(f"the bundle of {found.release}, not {release}", build)
    else:
        yield from (_BUNDLE.stop(fault, build) for fault in found.faults[:MOST_NAMED])


def _where(found: BundleEvidence) -> str:
    if found.later:
        return "needed after the pause"
    where = "in the mirror" if found.mirrored else "the run brings it to the mirror first"
    return f"verified; {where}"


def _minors(path: Sequence[Hop]) -> list[tuple[int, int]]:
    return sorted({(hop.kubernetes.major, hop.kubernetes.minor) for hop in path})


def _words(minors: Sequence[tuple[int, int]]) -> str:
    return ", ".join(dotted(minor) for minor in minors)


def runai(evidence: Evidence, path: Sequence[Hop]) -> tuple[Gate, ...]:
    """The vendor's table has the new Kubernetes for the version that runs."""
    found = evidence.runai
    if isinstance(found, Silence):
        return (_RUNAI.unknown(found, "see what runs: appliance runai inspect"),)
    if found is None:
        return (_RUNAI.go("the cluster has no Run:ai"),)
    version = minor_of(found)
    line = runai_versions.LINES.get(version) if version else None
    if line is None:
        silence = Silence(f"Run:ai {found}, whose range of Kubernetes is not known")
        return (_RUNAI.unknown(silence, "ask the vendor for its range; a newer tool may know it"),)
    low, high = line.kubernetes
    outside = [minor for minor in _minors(path) if not low <= minor <= high]
    span = f"{dotted(low)} to {dotted(high)}"
    if outside:
        return (
            _RUNAI.stop(
                f"Run:ai {found}, which runs on {span}, not on {_words(outside)}",
                "first bring Run:ai to a version for both: appliance runai upgrade",
            ),
        )
    return (_RUNAI.go(f"Run:ai {found} runs on {span}"),)


def runai_runtime(evidence: Evidence, path: Sequence[Hop]) -> tuple[Gate, ...]:
    """Run:ai's own value for the container runtime is the one that the nodes will have."""
    found = evidence.runai_runtime
    if not evidence.runtimes_change or found is None:
        return (_RUNTIME.go("nothing of Run:ai depends on a change"),)
    will = path[-1].runtime
    if isinstance(found, Silence):
        return (_RUNTIME.unknown(found, f"see it: {_VALUES}"),)
    if found != will:
        return (
            _RUNTIME.stop(
                f"global.runtime of Run:ai is {found or 'not set, which means docker'}",
                f"in site.yml, runai.cluster_values: {_RUNTIME_KEY.replace('RUNTIME', will)}; "
                "then: appliance install --only runai",
            ),
        )
    return (_RUNTIME.go(f"global.runtime of Run:ai is {found}"),)


def gpu_operator(site: Site, observed: Observed, path: Sequence[Hop]) -> tuple[Gate, ...]:
    """NVIDIA runs the operator on the new Kubernetes."""
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        silence = Silence("no API server answers")
        return (_OPERATOR.unknown(silence, "see what is wrong: appliance status"),)
    if site.settings.gpu is None and not cluster.gpu_operators:
        return (_OPERATOR.go("the site has no GPU Operator"),)
    if not cluster.gpu_operators:
        return (_OPERATOR.go("no GPU Operator is installed yet"),)
    faults = [
        gate
        for one in cluster.gpu_operators
        for gate in operator_gates(_OPERATOR, one, _minors(path))
    ]
    told = ", ".join(str(one.version) for one in cluster.gpu_operators)
    return _OPERATOR.all_of(faults, f"GPU Operator {told}")


def operator_gates(
    point: Point, one: GpuOperator, minors: Sequence[tuple[int, int]], cure: str = _NEWER_OPERATOR
) -> Iterator[Gate]:
    """Why an operator does not run on these versions of Kubernetes; nothing where it does.

    Args:
        point: what is judged, for the words of its gates.
        one: the operator, of a version that runs or that will.
        minors: of Kubernetes.
        cure: the next command.
    """
    what = f"GPU Operator {one.version or 'of unknown version'} in namespace {one.namespace}"
    tested = gpu_operator_versions.TESTED.get(gpu_operator_versions.line_of(one.version or ""))
    if tested is None:
        yield point.unknown(Silence(f"{what}, whose range of Kubernetes is not known"), cure)
        return
    low, high = tested.kubernetes
    outside = [minor for minor in minors if not low <= minor <= high]
    if outside and tested.is_range:
        span = f"{dotted(low)} to {dotted(high)}"
        yield point.stop(f"{what}, which runs on {span}, not on {_words(outside)}", cure)
    elif outside:
        nowhere = f"{what}, which NVIDIA is not known to have tested on {_words(outside)}"
        yield point.unknown(Silence(nowhere), cure)


def deprecated_apis(evidence: Evidence, path: Sequence[Hop]) -> tuple[Gate, ...]:
    """Nobody asked for an API that the release of the path does not have."""
    found = evidence.deprecated
    if isinstance(found, Silence):
        return (_DEPRECATED.unknown(found, "see what is wrong: appliance status"),)
    target = _minors(path)[-1]
    faults = [gate for use in dict.fromkeys(found) for gate in _use(use, target)]
    if len(faults) > MOST_NAMED:
        more = _DEPRECATED.stop(f"{len(faults) - MOST_NAMED} more of them", _CALLERS)
        faults = [*faults[:MOST_NAMED], more]
    return _DEPRECATED.all_of(faults, f"none that {dotted(target)} lacks")


_CALLERS: Final = "find who asks: the API server's audit log; then bring the caller up to date"


def _use(use: DeprecatedUse, target: tuple[int, int]) -> Iterator[Gate]:
    if not use.removed_release:
        return
    removed = _MINOR.fullmatch(use.removed_release)
    if removed is None:
        silence = Silence(f"{use.name}, removed in {use.removed_release!r}")
        yield _DEPRECATED.unknown(silence, _CALLERS)
    elif (int(removed[1]), int(removed[2])) <= target:
        yield _DEPRECATED.stop(f"{use.name}, which {use.removed_release} removes", _CALLERS)


def dropped(evidence: Evidence) -> tuple[Gate, ...]:
    """Every setting that would be lost is carried by the site, or was acknowledged by name."""
    found = evidence.losses
    if isinstance(found, Silence):
        return (_DROPPED.unknown(found, "see what is wrong: appliance status"),)
    due = [loss for loss in found if not loss.carried and not _is_accepted(loss, evidence)]
    faults = [_lost(loss) for loss in due[:MOST_LOSSES]]
    if len(due) > MOST_LOSSES:
        more = f"{len(due) - MOST_LOSSES} more of them"
        faults.append(_DROPPED.stop(more, "see these first, then ask again"))
    carried = sum(loss.carried for loss in found)
    accepted = len({loss.name for loss in found if not loss.carried})
    well = f"{carried} settings carried by site.yml, {accepted} given up by name"
    well = well if found else "nothing was changed by hand"
    if evidence.brought:
        settings = (f"{key} {value}" for key, value in evidence.brought.items())
        well += f"; on the new container runtime the kubelet has {', '.join(settings)}"
    return _DROPPED.all_of(faults, well)


def _is_accepted(loss: Loss, evidence: Evidence) -> bool:
    accepted = evidence.accepted
    # A worker may have thousands of settings, and a label takes longer than a name.
    return loss.name in accepted or (bool(accepted) and loss.label in accepted)


def _lost(loss: Loss) -> Gate:
    # A worker chooses the keys of its file, and people paste the command.
    cure = f"to give it up: --accept-loss {shlex.quote(loss.label)}"
    if loss.key_in_site and loss.label == loss.name:
        cure = f"to keep it: {loss.key_in_site} in site.yml; {cure}"
    return _DROPPED.stop(loss.sentence(), cure, loss.nodes[0] if len(loss.nodes) == 1 else "")
