"""Whether an upgrade that is under way has changed nothing yet, so that it can be dropped.

It has not begun where everything says so: the versions that run, what control-plane nodes keep of
kubeadm's runs and of kubelets, the journal, and that no node is out of service. What must not be
here: dropping it (:mod:`appliance.workflows.cluster.upgrading.drop`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from appliance.model.state.nodes.maintenance import ANNOTATION as MAINTENANCE
from appliance.model.state.nodes.maintenance import maintenance_of
from appliance.model.state.plan import Refusal
from appliance.model.state.upgrade import ANNOTATION, REASON
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.proof import control_plane_names, versions_of
from appliance.model.upgrade.versions import parse
from appliance.model.upgrade.window import CONTROL_PLANE, EACH, KUBELET, RUNTIME

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.cluster.cluster import Cluster
    from appliance.model.state.journal import Record
    from appliance.model.state.observed import Observed
    from appliance.model.state.upgrade import UpgradeMark
    from appliance.model.upgrade.observed import NodeVersions
    from appliance.model.upgrade.path import Hop

CHECK: Final = "not_begun"
UNIT: Final = "appliance-kubeadm"
# systemd's states of a unit that runs no more; "gone": it was collected.
_ENDED: Final = frozenset({"gone", "inactive", "failed"})
# Steps that change a node, as the journal names them.
_CHANGES: Final = frozenset({CONTROL_PLANE, KUBELET, RUNTIME, *EACH, "upgrade: back"})


@dataclass(frozen=True)
class Drop:
    """An upgrade that has not begun.

    Attributes:
        mark: what names it.
        before: the release that every node runs, but the workers that were left out before.
        nodes: those that carry the mark.
        former: the mark that they get again: of the upgrade that left workers out. None where
            there was none.
    """

    mark: UpgradeMark
    before: str
    nodes: tuple[str, ...]
    former: UpgradeMark | None = None

    @property
    def who(self) -> str:
        """Who runs the release of before, in words."""
        return f"every node but {', '.join(self.former.without)}" if self.former else "every node"


@dataclass(frozen=True)
class DropEvidence:
    """What was found beside the facts of the nodes.

    Attributes:
        kept: control-plane node -> whether it keeps a kubelet from before this upgrade.
        records: of the journal.
        hops: release -> what it runs, of every release that this tool knows.
    """

    kept: Mapping[str, bool | Silence]
    records: Sequence[Record]
    hops: Mapping[str, Hop]


def plan_drop(
    site: Site, observed: Observed, cluster: Cluster, mark: UpgradeMark, found: DropEvidence
) -> Drop | tuple[Refusal, ...]:
    """What is dropped, or everything that says that the upgrade began, or may have.

    Args:
        site: whose nodes were all read.
        observed: their facts.
        cluster: what the API says.
        mark: of the upgrade.
        found: the rest of the evidence.
    """
    first = site.control_plane[0].name
    if not mark.is_readable or mark.over or mark.release not in found.hops:
        expected = "an upgrade that has not begun, to a release that this tool knows"
        return (Refusal(first, CHECK, mark.sentence(), expected, mark.command),)
    left = left_out_before(site, mark)
    found_there = {
        name: one for name, one in versions_of(site, observed).items() if name not in left
    }
    refusals = [
        *_of_maintenance(cluster, mark, left),
        *_of_strangers(site, cluster, mark),
        *_of_versions(site, found_there, mark, found.hops),
        *_of_jobs(site, observed, mark),
        *_of_what_is_kept(site, mark, found.kept),
        *_of_records(mark, found.records),
    ]
    if refusals:
        return tuple(refusals)
    before = _before(found_there, mark, found.hops)
    if isinstance(before, Refusal):
        return (before,)
    behind = tuple(_of_left_out(site, observed, mark, found.hops[before], found.hops))
    if behind:
        return behind
    nodes = (
        name
        for name, node in cluster.nodes.items()
        if node.control_plane and ANNOTATION in node.annotations
    )
    return Drop(mark, before, tuple(nodes), _former(mark))


def _former(mark: UpgradeMark) -> UpgradeMark | None:
    """The mark that counts again; one that is not over is none, whoever wrote it."""
    former = mark.former
    return former if former is not None and former.is_readable and former.over else None


def left_out_before(site: Site, mark: UpgradeMark) -> frozenset[str]:
    """The workers that an earlier upgrade left out: they need not answer, nor run the same."""
    former = _former(mark)
    if former is None:
        return frozenset()
    workers = {node.name for node in site.workers} - {site.services_node.name}
    return frozenset(former.without) & workers


def _of_left_out(
    site: Site, observed: Observed, mark: UpgradeMark, before: Hop, hops: Mapping[str, Hop]
) -> Iterator[Refusal]:
    """What is noted of workers that were left out, against what runs there."""
    former, found = _former(mark), versions_of(site, observed)
    left = left_out_before(site, mark)
    if left and former is not None and former.release != before.release:
        seen = f"{former.sentence()}, but the others run {before.release}"
        yield _unknown(control_plane_names(site)[0], seen, "the release that was reached", mark)
    older = {
        (str(hop.kubernetes), hop.runtime)
        for hop in hops.values()
        if hop.kubernetes <= before.kubernetes and hop.release != mark.release
    }
    for name in sorted(left):
        node = found[name]
        # What its kube-proxy runs follows the cluster, not the node.
        if node is not None and (node.kubelet, node.runtime) not in older:
            seen = f"kubelet {node.kubelet or 'unknown'} on {node.runtime or 'no known runtime'}"
            yield _unknown(name, seen, "what one known older release has", mark)


def _begun(node: str, seen: str, expected: str, mark: UpgradeMark) -> Refusal:
    cure = (
        f"the upgrade has begun; to continue: {mark.command}; "
        "if it does not go forward, call support"
    )
    return Refusal(node, CHECK, seen, expected, cure)


def _unknown(node: str, seen: str, expected: str, mark: UpgradeMark) -> Refusal:
    cure = (
        "whether it has begun is not known: see what is wrong: appliance status; then run the same "
        f"command again, or go on: {mark.command}"
    )
    return Refusal(node, CHECK, seen, expected, cure)


def _of_maintenance(
    cluster: Cluster, mark: UpgradeMark, left: Collection[str]
) -> Iterator[Refusal]:
    for name, node in cluster.nodes.items():
        kept = maintenance_of(node.annotations) if name in left else None
        if kept is not None and not kept.reason.startswith(REASON):
            continue
        # One that cannot be read is one, too.
        if MAINTENANCE in node.annotations:
            yield _begun(name, "a node out of service", "every node in service", mark)


def _of_strangers(site: Site, cluster: Cluster, mark: UpgradeMark) -> Iterator[Refusal]:
    """Members that nobody asks: an older copy of the inventory does not have them."""
    known = {node.name for node in site.cluster_members}
    for name in cluster.nodes:
        if name not in known:
            seen = "a member of the cluster that the inventory does not have"
            cure = (
                "nobody asked it whether the upgrade began: use the newest copy of the site, "
                f"then run the same command again; or go on: {mark.command}"
            )
            yield Refusal(name, CHECK, seen, "an inventory with every member", cure)


def _of_versions(
    site: Site,
    found: Mapping[str, NodeVersions | None],
    mark: UpgradeMark,
    hops: Mapping[str, Hop],
) -> Iterator[Refusal]:
    """What runs the release already, or cannot be read; a worker that never joined runs nothing."""
    masters = control_plane_names(site)
    there = [one for one in found.values() if one is not None]
    for name in masters:
        node = found[name]
        # What its pods run is what its kubelet said last.
        if node is None or not node.ready:
            yield _unknown(name, "no Ready member of the cluster", "one", mark)
    for node in there:
        for part, text in (*node.texts(), ("its container runtime", node.runtime)):
            if not text:
                yield _unknown(node.name, f"no version of {part}", "what runs", mark)
    target = ({str(hops[mark.release].kubernetes)}, {hops[mark.release].runtime})
    versions = {text for one in there for _, text in one.texts() if text}
    runtimes = {one.runtime for one in there if one.runtime}
    behind = _behind(there, masters, hops[mark.release])
    if behind:
        yield from (_left_behind(node, mark) for node in behind)
    elif len(versions) > 1 or len(runtimes) > 1 or (versions, runtimes) == target:
        seen = " and ".join(sorted(versions | runtimes))
        yield _begun(masters[0], seen, f"one release before {mark.release} everywhere", mark)


def _behind(
    there: Sequence[NodeVersions], masters: Sequence[str], target: Hop
) -> tuple[NodeVersions, ...]:
    """The workers whose older kubelet alone differs: an earlier upgrade may have left them out."""
    rest = [one for one in there if one.name in masters]
    main = {text for one in rest for _, text in one.texts()}
    if len(main) != 1 or str(target.kubernetes) in main:
        return ()
    newest = parse(next(iter(main)))
    behind = [
        one
        for one in there
        if one.name not in masters
        and newest is not None
        and (own := parse(one.kubelet)) is not None
        and own < newest
    ]
    others = [one for one in there if one not in behind]
    is_one = {text for one in others for _, text in one.texts()} == main
    return tuple(behind) if is_one and len({one.runtime for one in others}) == 1 else ()


def _left_behind(node: NodeVersions, mark: UpgradeMark) -> Refusal:
    cure = (
        f"this upgrade did not do that; an earlier one may have left {node.name} out: take it out, "
        f"then run the same command again: appliance node remove {node.name}; or go on without it: "
        f"{mark.command} --without {node.name}"
    )
    seen = f"kubelet {node.kubelet} on {node.runtime}, older than the control plane"
    return Refusal(node.name, CHECK, seen, "the release of the others", cure)


def _of_jobs(site: Site, observed: Observed, mark: UpgradeMark) -> Iterator[Refusal]:
    """Runs of kubeadm since the upgrade began, by what each control-plane node keeps of them."""
    since = _moment(mark.since)
    for name in control_plane_names(site):
        facts = observed.node_facts.get(name)
        jobs: list[dict[str, Any]] | None = facts.at("jobs") if facts else None
        if facts is None or jobs is None or since is None or "jobs" in (facts.at("unseen") or ()):
            yield _unknown(name, "no answer about kubeadm's runs", "when it ran last", mark)
            continue
        for job in (one for one in jobs if one.get("unit") == UNIT):
            seen = _run_of_kubeadm(job, since)
            if seen:
                yield _begun(name, seen, "no run of kubeadm since the upgrade began", mark)


def _run_of_kubeadm(job: Mapping[str, Any], since: float) -> str:
    """The run in words, where it is not from before; empty where it is."""
    started = (job.get("record") or {}).get("started")
    if job.get("active") not in _ENDED:
        return "kubeadm running"
    if isinstance(started, bool) or not isinstance(started, int | float):
        return "a run of kubeadm at an unknown time"
    return "a run of kubeadm since then" if started >= since else ""


def _of_what_is_kept(
    site: Site, mark: UpgradeMark, kept: Mapping[str, bool | Silence]
) -> Iterator[Refusal]:
    """Before kubeadm runs, a node keeps the kubelet that runs under this upgrade's word."""
    for name in control_plane_names(site):
        one = kept.get(name, Silence("it was not asked"))
        if isinstance(one, Silence):
            yield _unknown(name, one.reason, "whether it keeps a kubelet of before", mark)
        elif one:
            yield _begun(name, "a kubelet kept by this upgrade", "none", mark)


def _of_records(mark: UpgradeMark, records: Sequence[Record]) -> Iterator[Refusal]:
    since = _moment(mark.since)
    for one in records:
        at = _moment(one.started)
        late = since is None or at is None or at >= since
        if one.command == "cluster upgrade" and one.step in _CHANGES and late:
            where = ", ".join(one.nodes) or "the journal"
            yield _begun(where, f"the step {one.step!r} in the journal", "no such step", mark)
            return


def _before(
    found: Mapping[str, NodeVersions | None], mark: UpgradeMark, hops: Mapping[str, Hop]
) -> str | Refusal:
    """The release that runs, by its versions; the mark decides where several releases have them."""
    there = [one for one in found.values() if one is not None]
    version, runtime = next(iter(there[0].texts()))[1], there[0].runtime
    fits = [
        hop.release
        for hop in hops.values()
        if (str(hop.kubernetes), hop.runtime) == (version, runtime) and hop.release != mark.release
    ]
    if len(fits) == 1 or mark.before in fits:
        return mark.before if mark.before in fits else fits[0]
    seen = f"Kubernetes {version} on {runtime}, which {', '.join(fits) or 'no known release'} has"
    return _unknown(there[0].name, seen, "one release", mark)


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
