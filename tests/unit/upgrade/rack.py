"""A rack whose Kubernetes is upgraded: what plays do to it, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from appliance.adapters.local.content import load_release
from appliance.errors import ApplianceError
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.node.drain import DrainView
from appliance.model.plan.play import Play
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.pods import Budget, Pod, PodOnNode
from appliance.model.state.desired import Desired
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, stands_as_ours
from appliance.model.upgrade.evidence import DeprecatedUse, EtcdStatus, Silence, SnapshotProof
from appliance.model.upgrade.losses import Documents
from appliance.model.upgrade.observed import PARTS
from appliance.model.upgrade.path import hop_of
from appliance.model.upgrade.plan import UpgradeOptions
from appliance.workflows.cluster.upgrade import upgrade
from appliance.workflows.cluster.upgrade_look import UpgradeRequest, UpgradeResult
from tests import samples
from tests.fakes import FakeArchive, FakeBundle, FakeClock, FakeJournal, FakeObserver, FakeRack, run
from tests.sessions import fake_session
from tests.unit.upgrade import handmade

OLD, NEW = "k8s-1.23.5-r1", "k8s-1.23.17-r1"
OLD_TAG, TAG = "v1.23.5", "v1.23.17"
HOPS = {name: hop_of(load_release(name)) for name in (OLD, NEW)}
KUBEADM = {"path": "bin/kubeadm", "sha256": "ad" * 32, "size": 1}


def manifest() -> BundleManifest:
    """The bundle of the new release."""
    images = {name.replace(OLD_TAG, TAG): digest for name, digest in samples.IMAGES.items()}
    kubeadm = {
        "name": "kubeadm",
        "kind": "binary",
        "version": "1.23.17",
        "source": {"kind": "go", "ref": "k8s.io", "verified": "go.sum"},
    }
    return BundleManifest.parse(
        {
            "schema": 1,
            "release": NEW,
            "os": "debian-12",
            "architecture": "amd64",
            "tool_version": "0.1.0",
            "created": "2026-01-01T00:00:00Z",
            "artifacts": [{**kubeadm, **KUBEADM, "standin": False}],
            "images": images,
            "packages": {"docker.io": "20.10.24", "chrony": "4.3", "nginx-light": "1.22"},
            "package_roots": {"runtime": ["docker.io"], "time": ["chrony"]},
            "files": [{"path": "apt/Packages", "sha256": samples.INDEX_DIGEST, "size": 1}, KUBEADM],
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

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if play.playbook != "kubernetes_upgrade":
            self.done.append(play.playbook)
            super().play(play, on_task)
            return
        groups = play.inventory["all"]["children"]
        kubeadm = list(groups["appliance_kubeadm_upgrade"]["hosts"])
        kubelets = list(groups["appliance_kubelet_upgrade"]["hosts"])
        hosts = play.inventory["all"]["hosts"]
        failed: ApplianceError | None = None
        for name in play.limit:
            if name in self.fail_on:
                failed = self.fail_on.pop(name)
                continue
            if name in kubeadm:
                self._kubeadm(name, hosts[name]["kubernetes_upgrade_action"])
            if name in kubelets:
                self._kubelet(name)
        if failed:
            raise failed

    def _kubeadm(self, name: str, action: str) -> None:
        self.done.append(f"{action} {name}")
        pods = tuple(
            running(pod, TAG)
            if (pod.node == name and pod.app in PARTS)
            or (action == "apply" and pod.app == "kube-proxy")
            else pod
            for pod in self.api.pods
        )
        self.cluster = replace(self.api, pods=pods)

    def _kubelet(self, name: str) -> None:
        self.done.append(f"kubelet {name}")
        node = self.api.nodes[name]
        assert node.unschedulable, "a kubelet is renewed on an emptied node only"
        self.cluster = replace(self.api, nodes={**self.api.nodes, name: replace(node, version=TAG)})


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
        self.fails: ApplianceError | None = None
        self.kubelets: dict[str, Any] = {}
        self.carried: list[tuple[Any, Any]] = []

    def statuses(self, asked: Sequence[Node]) -> tuple[EtcdStatus, ...] | Silence:
        return tuple(
            EtcdStatus(node.name, True, f"{n:x}", "1", 7, "3.5.1", 1 << 20)
            for n, node in enumerate(asked, 1)
        )

    def prove(self, node: Node, reason: str) -> SnapshotProof:
        self.rack.done.append(f"snapshot {node.name} {reason}")
        if self.fails:
            raise self.fails
        return SnapshotProof(node.name, "/snapshots/1.db", "ab" * 32, 1, 7, 3, "cd" * 32)

    def documents(self, members: Iterable[Node]) -> Documents:
        found = handmade.untouched()
        names = [node.name for node in members]
        pods = found["manifests"]["cp1"]
        found["manifests"] = {name: pods for name in names if name.startswith("cp")}
        found["kubelet_files"] = dict.fromkeys(names, handmade.KUBELET | self.kubelets)
        if self.carried:
            found["kubelet_configuration"] = self.carried[-1][0]
        return handmade.documents(found)

    def carry(self, found: Documents, kubelet: Any, cluster: Any) -> None:
        assert found.kubelet_configuration == handmade.KUBELET
        self.carried.append((kubelet, cluster))

    def deprecated_uses(self) -> tuple[DeprecatedUse, ...] | Silence:
        return self.uses


class Bench:
    """A rack, and the command that upgrades it."""

    def __init__(self, masters: int = 1, workers: int = 2) -> None:
        site = samples.site(masters, workers, appliance_release=NEW)
        self.desired = Desired(site, load_release(NEW), manifest(), samples.BUNDLE_DIGEST)
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

    def upgrade(self, to: str = NEW, **more: Any) -> UpgradeResult:
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
        request = UpgradeRequest(
            self.desired,
            HOPS,
            UpgradeOptions(to, **more),
            run("cluster upgrade"),
            measured={NEW: load_release(NEW).measured},
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
