"""A rack whose Kubernetes is upgraded: what plays do to it, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from appliance.adapters.local.content import load_release
from appliance.adapters.ssh.call import Answer
from appliance.errors import ApplianceError
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.node.drain import DrainView
from appliance.model.plan.play import Play
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.pods import Budget, Pod, PodOnNode
from appliance.model.state.desired import Desired
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, stands_as_ours
from appliance.model.state.observed import Observed
from appliance.model.upgrade.evidence import DeprecatedUse, EtcdStatus, Silence, SnapshotProof
from appliance.model.upgrade.losses import Documents
from appliance.model.upgrade.observed import PARTS, node_versions, skew
from appliance.model.upgrade.path import hop_of
from appliance.model.upgrade.plan import UpgradeOptions
from appliance.workflows.cluster.upgrade import upgrade
from appliance.workflows.cluster.upgrading.look import UpgradeResult
from appliance.workflows.cluster.upgrading.request import UpgradeRequest
from appliance.workflows.cluster.upgrading.supply import Supply
from tests import samples
from tests.fakes import FakeArchive, FakeBundle, FakeClock, FakeJournal, FakeObserver, FakeRack, run
from tests.sessions import fake_session
from tests.unit.upgrade import handmade

OLD, NEW, NEXT = "k8s-1.23.5-r1", "k8s-1.23.17-r1", "k8s-1.24.17-r1"
OLD_TAG, TAG, NEXT_TAG = "v1.23.5", "v1.23.17", "v1.24.17"
TAGS = {OLD: OLD_TAG, NEW: TAG, NEXT: NEXT_TAG}
DIGESTS = {NEW: samples.BUNDLE_DIGEST, NEXT: "cd" * 32}
HOPS = {name: hop_of(load_release(name)) for name in (OLD, NEW, NEXT)}
KUBEADM = {"path": "bin/kubeadm", "sha256": "ad" * 32, "size": 1}
CRICTL = {"path": "bin/crictl", "sha256": "ae" * 32, "size": 1}


def manifest(release: str = NEW) -> BundleManifest:
    """The bundle of a new release."""
    tag, runtime = TAGS[release], "containerd" if release == NEXT else "docker.io"
    images = {name.replace(OLD_TAG, tag): digest for name, digest in samples.IMAGES.items()}
    source = {"kind": "go", "ref": "k8s.io", "verified": "go.sum"}
    kubeadm = {"name": "kubeadm", "kind": "binary", "version": tag[1:], "source": source}
    return BundleManifest.parse(
        {
            "schema": 1,
            "release": release,
            "os": "debian-12",
            "architecture": "amd64",
            "tool_version": "0.1.0",
            "created": "2026-01-01T00:00:00Z",
            "artifacts": [
                {**kubeadm, **KUBEADM, "standin": False},
                {**kubeadm, **CRICTL, "name": "crictl", "standin": False},
            ],
            "images": images,
            "packages": {runtime: "1.6.20", "chrony": "4.3", "nginx-light": "1.22"},
            "package_roots": {"runtime": [runtime], "time": ["chrony"]},
            "files": [
                {"path": "apt/Packages", "sha256": samples.INDEX_DIGEST, "size": 1},
                KUBEADM,
                CRICTL,
            ],
        }
    )


def running(pod: Pod, tag: str) -> Pod:
    """A pod with its image; those of Kubernetes have the tag."""
    shown = tag if pod.app in (*PARTS, "kube-proxy") else "v0"
    return replace(pod, images=(f"registry.rack.test:5000/{pod.app}:{shown}",))


class UpgradeRack(FakeRack):
    """Nodes on the old release; a play of the upgrade renews them."""

    def __init__(self, desired: Desired) -> None:
        super().__init__(desired)
        self.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
        services = self.documents[desired.site.services_node.name]
        services["artifacts"]["bundle_digest"] = "00" * 32
        found = samples.cluster(desired)
        self.cluster = replace(
            found,
            pods=tuple(running(pod, OLD_TAG) for pod in found.pods),
            nodes={
                name: replace(node, runtime="docker://20.10.24")
                for name, node in found.nodes.items()
            },
        )
        self.done: list[str] = []
        self.fail_on: dict[str, ApplianceError] = {}

    @property
    def api(self) -> Cluster:
        assert isinstance(self.cluster, Cluster)
        return self.cluster

    def read_as_root(self, *_words: Any, **_more: Any) -> Answer:
        return Answer(44, "", "no such file")

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if play.playbook == "kubernetes_runtime":
            changing = play.inventory["all"]["children"]["appliance_kubernetes_runtime"]["hosts"]
            assert tuple(changing) == play.limit
            self.plays.append(play)
            self._each(play, self._runtime)
            return
        if play.playbook != "kubernetes_upgrade":
            self.done.append(play.playbook)
            super().play(play, on_task)
            if play.playbook == "artifacts":
                services = self.documents[self.desired.site.services_node.name]
                everything = str(play.inventory["all"]["vars"])
                digest = next(one for one in DIGESTS.values() if one in everything)
                services["artifacts"]["bundle_digest"] = digest
            return
        groups = play.inventory["all"]["children"]
        kubeadm = list(groups["appliance_kubeadm_upgrade"]["hosts"])
        kubelets = list(groups["appliance_kubelet_upgrade"]["hosts"])
        hosts = play.inventory["all"]["hosts"]
        self.plays.append(play)
        tag = TAGS[_release_of(play)]

        def renew(name: str) -> None:
            if name in kubeadm:
                self._kubeadm(name, hosts[name]["kubernetes_upgrade_action"], tag)
            if name in kubelets:
                self._kubelet(name, tag)

        self._each(play, renew)

    def _each(self, play: Play, change: Callable[[str], None]) -> None:
        failed: ApplianceError | None = None
        for name in play.limit:
            if name in self.fail_on:
                failed = self.fail_on.pop(name)
                continue
            change(name)
            versions = {
                n: node_versions(self.desired.site.node(n), self._seen()) for n in self.api.nodes
            }
            assert skew({n: one for n, one in versions.items() if one}) == ()
        if failed:
            raise failed

    def _seen(self) -> Observed:
        return Observed({}, self.api)

    def _runtime(self, name: str) -> None:
        self.done.append(f"runtime {name}")
        node = self.api.nodes[name]
        assert node.unschedulable, "a runtime is changed on an emptied node only"
        assert node.version < NEXT_TAG, "before the kubelet of the release"
        changed = replace(node, runtime="containerd://1.6.20")
        self.cluster = replace(self.api, nodes={**self.api.nodes, name: changed})

    def _kubeadm(self, name: str, action: str, tag: str = TAG) -> None:
        self.done.append(f"{action} {name}")
        pods = tuple(
            running(pod, tag)
            if (pod.node == name and pod.app in PARTS)
            or (action == "apply" and pod.app == "kube-proxy")
            else pod
            for pod in self.api.pods
        )
        self.cluster = replace(self.api, pods=pods)

    def _kubelet(self, name: str, tag: str = TAG) -> None:
        self.done.append(f"kubelet {name}")
        node = self.api.nodes[name]
        assert node.unschedulable, "a kubelet is renewed on an emptied node only"
        assert not (tag == NEXT_TAG and node.runtime.startswith("docker")), "it runs no Docker"
        self.cluster = replace(self.api, nodes={**self.api.nodes, name: replace(node, version=tag)})


def _release_of(play: Play) -> str:
    version = play.inventory["all"]["vars"].get("kubernetes_upgrade_version")
    return NEXT if version == NEXT_TAG.removeprefix("v") else NEW


class RackDrain:
    """The pods of every node of a rack; an eviction that a budget allows ends a pod at once."""

    def __init__(self, rack: UpgradeRack) -> None:
        self.rack = rack
        self.pods: dict[str, list[PodOnNode]] = {name: [] for name in rack.api.nodes}
        self.budgets: list[Budget] = []
        self.listed = 0

    def views(self, asked: Sequence[str]) -> dict[str, DrainView]:
        self.listed += 1
        return {name: self.view(name) for name in asked}

    def view(self, node: str) -> DrainView:
        found = self.rack.api.nodes[node]
        return DrainView(
            node,
            found.annotations,
            found.unschedulable,
            found.taints,
            found.ready,
            tuple(self.pods[node]),
            tuple(self.budgets),
            tuple(self.rack.api.nodes.values()),
        )

    def pods_on(self, node: str) -> tuple[PodOnNode, ...]:
        return tuple(self.pods[node])

    def _change(self, node: str, **changes: Any) -> None:
        changed = replace(self.rack.api.nodes[node], **changes)
        self.rack.cluster = replace(self.rack.api, nodes={**self.rack.api.nodes, node: changed})

    def mark(
        self,
        node: str,
        maintenance: Maintenance,
        *,
        cordon: bool,
        ours: Collection[Maintenance | None],
    ) -> None:
        found = self.rack.api.nodes[node]
        stands_as_ours(node, found.annotations, ours)
        self._change(
            node,
            annotations={**found.annotations, ANNOTATION: maintenance.as_text()},
            unschedulable=found.unschedulable or cordon,
        )

    def clear(self, node: str, *, uncordon: bool, ours: Collection[Maintenance | None]) -> None:
        found = self.rack.api.nodes[node]
        if stands_as_ours(node, found.annotations, ours):
            kept = {key: v for key, v in found.annotations.items() if key != ANNOTATION}
            self._change(node, annotations=kept, unschedulable=found.unschedulable and not uncordon)

    def taint(self, node: str, *, on: bool, ours: Collection[Maintenance | None]) -> None:
        raise AssertionError(f"an upgrade sets no taint: {node} {on} {ours}")

    def evict(self, pod: PodOnNode) -> str:
        if any(pod.where in budget.pods and budget.allowed == 0 for budget in self.budgets):
            return "a PodDisruptionBudget does not allow it"
        assert pod.node is not None
        self.rack.done.append(f"evict {pod.name}")
        self.pods[pod.node] = [one for one in self.pods[pod.node] if one.where != pod.where]
        return ""


class FakeEvidence:
    """A cluster in which all is well, but for what a test puts there."""

    def __init__(self, rack: UpgradeRack) -> None:
        self.rack = rack
        self.uses: tuple[DeprecatedUse, ...] | Silence = ()
        self.deserved: Mapping[str, float | None] | Silence = {}
        self.fails: ApplianceError | None = None
        self.gone: set[str] | Silence = set()
        self.begun: set[str] | Silence = set()
        self.asked_of: list[tuple[str, str]] = []
        self.kubelets: dict[str, Any] = {}
        self.units: dict[str, str] = {}
        self.carried: list[tuple[Any, Any]] = []

    def statuses(self, asked: Sequence[Node]) -> tuple[EtcdStatus, ...] | Silence:
        return tuple(
            EtcdStatus(node.name, True, f"{n:x}", "1", 7, "3.5.1", 1 << 20)
            for n, node in enumerate(asked, 1)
        )

    def prove(self, node: Node, reason: str, keep: Sequence[str] = ()) -> SnapshotProof:
        self.rack.done.append(" ".join(("snapshot", node.name, reason, *keep)))
        if self.fails:
            raise self.fails
        return SnapshotProof(node.name, "/snapshots/1.db", "ab" * 32, 1, 7, 3, "cd" * 32)

    def keeps(self, node: Node, path: str) -> bool | Silence:
        assert node.name.startswith("cp")
        return path not in self.gone if isinstance(self.gone, set) else self.gone

    def began(self, node: Node, upgrade: str) -> bool | Silence:
        assert node.name.startswith("cp")
        self.asked_of.append((node.name, upgrade))
        return node.name in self.begun if isinstance(self.begun, set) else self.begun

    def documents(self, members: Iterable[Node]) -> Documents:
        found = handmade.untouched()
        names = [node.name for node in members]
        pods = found["manifests"]["cp1"]
        found["manifests"] = {name: pods for name in names if name.startswith("cp")}
        found["kubelet_files"] = dict.fromkeys(names, handmade.KUBELET | self.kubelets)
        found["kubelet_units"] = dict.fromkeys(names, handmade.units() | self.units)
        if self.carried:
            found["kubelet_configuration"] = self.carried[-1][0]
        return handmade.documents(found)

    def carry(self, found: Documents, kubelet: Any, cluster: Any) -> None:
        assert found.kubelet_configuration == handmade.KUBELET
        self.carried.append((kubelet, cluster))

    def runai_runtime(self) -> str | Silence | None:
        return None

    def deserved_gpus(self) -> Mapping[str, float | None] | Silence:
        return self.deserved

    def deprecated_uses(self) -> tuple[DeprecatedUse, ...] | Silence:
        return self.uses


class Bench:
    """A rack, and the command that upgrades it."""

    def __init__(self, masters: int = 1, workers: int = 2, to: str = NEW) -> None:
        site = samples.site(masters, workers, appliance_release=to)
        self.to = to
        self.desired = Desired(site, load_release(to), manifest(to), DIGESTS[to])
        self.rack = UpgradeRack(self.desired)
        self.drain = RackDrain(self.rack)
        self.journal = FakeJournal()
        self.archive = FakeArchive()
        self.observer = FakeObserver()
        self.clock = FakeClock()
        self.bundle: FakeBundle | None = FakeBundle(manifest())
        self.evidence: FakeEvidence | None = None
        self.chosen: list[str] = []
        self.asked: list[UpgradeResult] = []
        self.answer = True

    @property
    def supplies(self) -> dict[str, Supply]:
        """The bundles that are at hand, or on the services node."""
        found = {}
        first = self.bundle.manifest if self.bundle else self.desired.manifest
        others = [manifest(name) for name in (NEW, NEXT)] if self.to == NEXT else []
        for one in [*others, *([first] if first else [])]:
            digest = DIGESTS.get(one.release, samples.BUNDLE_DIGEST)
            bundle = FakeBundle(one) if self.bundle else None
            found[one.release] = Supply(load_release(one.release), one, digest, None, bundle)
        return found

    def upgrade(self, to: str = "", **more: Any) -> UpgradeResult:
        to = to or self.to
        asked_of = more.pop("confirm", lambda _found: self.answer)
        choose = more.pop("choose_release", self.chosen.append)

        def confirm(found: UpgradeResult) -> bool:
            self.asked.append(found)
            return bool(asked_of(found))

        changes = {
            key: more.pop(key)
            for key in ("dry_run", "allow_outage", "accepted", "pausing")
            if key in more
        }
        more_supplies = more.pop("supplies", None)
        request = UpgradeRequest(
            self.desired,
            HOPS,
            UpgradeOptions(to, **more),
            run("cluster upgrade"),
            # What the site's file has, until the upgrade writes it.
            before=self.chosen[-1] if self.chosen else OLD,
            supplies=more_supplies if more_supplies is not None else self.supplies,
            measured={name: load_release(name).measured for name in (NEW, NEXT)},
            **changes,
        )
        session = fake_session(
            self.rack,
            self.journal,
            drain=self.drain,
            archive=self.archive,
            observer=self.observer,
            clock=self.clock,
            bundle=self.bundle,
            choose_release=choose,
            upgrade_evidence=self.evidence,
        )
        return upgrade(request, session, confirm)

    @property
    def cordoned(self) -> list[str]:
        return [name for name, node in self.rack.api.nodes.items() if node.unschedulable]

    @property
    def steps(self) -> list[str]:
        return [record.step for record in self.journal.records]


def web(node: str, name: str = "web-1", **more: Any) -> PodOnNode:
    """A pod with a sibling elsewhere."""
    values: dict[str, Any] = {"owner": ("ReplicaSet", "web-5d"), "siblings": 1, **more}
    return PodOnNode("team", name, node, **values)
