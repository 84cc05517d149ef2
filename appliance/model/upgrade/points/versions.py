"""Gates: the bundle, what runs on the new Kubernetes, and what kubeadm would drop."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from appliance.model.bundle.release import gpu_operator_versions, runai_versions
from appliance.model.bundle.release.runai_versions import dotted, minor_of
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.upgrade.evidence import DeprecatedUse, Silence
from appliance.model.upgrade.gate import Gate, Point

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
_BUNDLE: Final = Point("bundle", "the verified bundle of the first release on the way")
_RUNAI: Final = Point("runai", "a version of Run:ai that runs on every Kubernetes on the way")
_OPERATOR: Final = Point("gpu-operator", "a GPU Operator that runs on every Kubernetes on the way")
_DEPRECATED: Final = Point("deprecated-apis", "no use of an API that the release no longer has")
_NEWER_OPERATOR: Final = "first bring it to a version for both: appliance gpu upgrade"
_DROPPED: Final = Point("dropped", "no setting that kubeadm would silently drop")


def bundle(evidence: Evidence, path: Sequence[Hop]) -> tuple[Gate, ...]:
    """The bundle is the release's, whole, and in the mirror or on its way there."""
    found, release = evidence.bundle, path[0].release
    build = f"appliance bundle build --release {release} DIR, then --bundle DIR"
    if isinstance(found, Silence):
        return (_BUNDLE.unknown(found, build),)
    if found.release != release:
        return (_BUNDLE.stop(f"the bundle of {found.release}, not {release}", build),)
    faults = [_BUNDLE.stop(fault, build) for fault in found.faults[:MOST_NAMED]]
    where = "in the mirror" if found.mirrored else "the run brings it to the mirror first"
    return _BUNDLE.all_of(faults, f"{release}, verified; {where}")


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
    faults = [
        _lost(loss) for loss in found if not loss.carried and not _is_accepted(loss, evidence)
    ]
    if len(faults) > MOST_LOSSES:
        more = f"{len(faults) - MOST_LOSSES} more of them"
        faults = [*faults[:MOST_LOSSES], _DROPPED.stop(more, "see these first, then ask again")]
    carried = sum(loss.carried for loss in found)
    accepted = len({loss.name for loss in found if not loss.carried})
    well = f"{carried} settings carried by site.yml, {accepted} given up by name"
    return _DROPPED.all_of(faults, well if found else "nothing was changed by hand")


def _is_accepted(loss: Loss, evidence: Evidence) -> bool:
    return loss.name in evidence.accepted


def _lost(loss: Loss) -> Gate:
    # A worker chooses the keys of its file, and people paste the command.
    cure = f"to give it up: --accept-loss {shlex.quote(loss.name)}"
    if loss.key_in_site:
        cure = f"to keep it: {loss.key_in_site} in site.yml; {cure}"
    return _DROPPED.stop(loss.sentence(), cure, loss.nodes[0] if len(loss.nodes) == 1 else "")
