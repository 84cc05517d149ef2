"""Fakes of the workflows' ports: small, honest, and with a memory of what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ApplianceError, NodeUnreachable
from appliance.model.bundle.carry.delta import Delta
from appliance.model.bundle.faults import BundleFault
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.components.node_metadata.node_roles import RolesPlan
from appliance.model.control.lock import LockVerdict
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.etcd_quorum import EtcdMember
from appliance.model.plan.play import Play
from appliance.model.site.settings import Node, Site
from appliance.model.state.cluster.cluster import (
    Cluster,
    ClusterNode,
    ClusterState,
    NoCluster,
    Unreachable,
)
from appliance.model.state.cluster.cluster import ClusterStorage as Storage
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.journal import Record, Run
from appliance.model.state.nodes.node_metadata import NodeMetadata, new_role_taints
from appliance.model.state.nodes.roles import NodeAffinity, RolesView
from appliance.model.state.observed import Fault, GpuTestResult, Look, PodView
from appliance.model.state.plan import Plan
from tests import samples

# Ids of runs, in the order of their times.
RUN_A, RUN_B, RUN_C, RUN_D, RUN_Z = (
    f"0197a000-0000-7000-8000-00000000000{letter}" for letter in "abcdf"
)


def run(command: str = "install") -> Run:
    """Who does what, in a test."""
    return Run(RUN_A, command, "ada", "1", "laptop", samples.BUNDLE_DIGEST)


class FakeRack:
    """Nodes, cluster and Ansible in one: a play that succeeds makes its hosts converged."""

    def __init__(self, desired: Desired) -> None:
        self.desired = desired
        self.documents = {node.name: samples.bare(node) for node in desired.site.nodes}
        self.faults: dict[str, Fault] = {}
        self.cluster: ClusterState = NoCluster()
        self.reads = 0
        self.reads_until_pods_are_ready = 0
        self.plays: list[Play] = []
        self.looks = 0
        self.proofs: list[tuple[str, ...]] = []
        self.proof_faults: tuple[str, ...] = ()
        self.gpu_proofs: list[tuple[str, ...]] = []
        self.gpu_untested = GpuTestResult({"w1": ("GPU 0: x",)})
        self.role_plans: list[RolesPlan] = []
        self.put_backs: list[tuple[str, NodeMetadata]] = []
        self.deleted: list[str] = []
        self.fail: dict[str, BaseException] = {}
        self.without_effect: set[str] = set()

    def look(self, nodes: Sequence[Node]) -> Look:
        self.looks += 1
        return Look(
            {
                node.name: NodeFacts(self.documents[node.name])
                for node in nodes
                if node.name not in self.faults
            },
            tuple(self.faults[node.name] for node in nodes if node.name in self.faults),
        )

    def read(self, node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        self.reads += 1
        names = [node.name for node in self.desired.site.control_plane]
        unseen = [name for name in names if name not in node_facts]
        # As the real one, which knows that there is no cluster once all of them were read.
        if unseen and (isinstance(self.cluster, NoCluster) or unseen == names):
            return Unreachable("; ".join(f"{name}: not read" for name in unseen))
        if isinstance(self.cluster, Cluster) and self.reads < self.reads_until_pods_are_ready:
            pods = tuple(replace(pod, ready=False) for pod in self.cluster.pods)
            return replace(self.cluster, pods=pods)
        return self.cluster

    def run_network_test(
        self, nodes: Sequence[str], image: str, *, dns: bool = True
    ) -> tuple[str, ...]:
        assert dns, "a rack's CoreDNS runs"
        assert image.startswith("registry.rack.test:5000/busybox@sha256:")
        self.proofs.append(tuple(nodes))
        self._mark(nodes, None if self.proof_faults else "2026-01-01T00:00:00+00:00")
        return self.proof_faults

    def look_from_pods(self, nodes: Sequence[str], image: str, names: Sequence[str]) -> PodView:
        raise NotImplementedError

    def run_gpu_test(
        self, nodes: Sequence[str], image: str, meanwhile: Callable[[], None]
    ) -> GpuTestResult:
        assert image.startswith("registry.rack.test:5000/cuda@sha256:")
        meanwhile()
        self.gpu_proofs.append(tuple(nodes))
        return self.gpu_untested

    def _mark(self, nodes: Sequence[str], proven: str | None) -> None:
        assert isinstance(self.cluster, Cluster)
        marked = {name: replace(self.cluster.nodes[name], network_tested=proven) for name in nodes}
        self.cluster = replace(self.cluster, nodes={**self.cluster.nodes, **marked})

    def roles(self) -> RolesView:
        assert isinstance(self.cluster, Cluster)
        assert self.cluster.roles is not None
        return self.cluster.roles

    def write_roles(self, plan: RolesPlan) -> None:
        self.role_plans.append(plan)
        if "node_roles" in self.fail:
            raise self.fail["node_roles"]
        if "node_roles" in self.without_effect:
            return
        view = self.roles()
        labels = {node: dict(found) for node, found in view.labels.items()}
        for change in plan.changes:
            labels[change.node].pop(change.key, None)
            labels[change.node] |= {change.key: ""} if change.present else {}
        affinity = view.affinity
        if plan.patch is not None:
            assert affinity is not None
            said = plan.patch["spec"]["global"]["nodeAffinity"]
            affinity = NodeAffinity(
                said.get("restrictScheduling", affinity.restrict_scheduling),
                said.get("restrictRunaiSystem", affinity.restrict_system),
            )
        assert isinstance(self.cluster, Cluster)
        self.cluster = replace(self.cluster, roles=RolesView(labels, affinity, view.anchored))

    def put_back(self, node: ClusterNode, kept: NodeMetadata) -> None:
        self.put_backs.append((node.name, kept))
        if "put_back" in self.without_effect:
            return
        assert isinstance(self.cluster, Cluster)
        taints = [t for t in node.taints if t not in new_role_taints(kept, node)]
        now = replace(
            node,
            labels={**node.labels, **kept.labels},
            annotations={**node.annotations, **kept.annotations},
            taints=tuple(dict.fromkeys((*taints, *kept.taints))),
        )
        self.cluster = replace(self.cluster, nodes={**self.cluster.nodes, node.name: now})

    def delete(self, name: str) -> None:
        self.deleted.append(name)
        if "delete" in self.fail:
            raise self.fail["delete"]
        assert isinstance(self.cluster, Cluster)
        nodes = {key: node for key, node in self.cluster.nodes.items() if key != name}
        self.cluster = replace(self.cluster, nodes=nodes)

    def annotate(self, names: Sequence[str], key: str, value: str | None) -> None:
        self.cluster = samples.annotated(self.cluster, names, key, value)

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        self.plays.append(play)
        if play.playbook in self.fail:
            raise self.fail[play.playbook]
        for name in play.limit:
            on_task(name, f"{play.playbook} : Do it", True)
        if play.playbook == "kubernetes_certificates":
            self._renew(play)
        elif play.playbook not in self.without_effect:
            self._take_effect(play)

    def _renew(self, play: Play) -> None:
        for name in play.limit:
            kubernetes = self.documents[name]["kubernetes"]
            for key in ("pki", "kubeconfigs"):
                kubernetes[key] = [one for one in kubernetes[key] if "not_after" not in one]

    def _take_effect(self, play: Play) -> None:
        parts: dict[str, tuple[str, ...]] = {
            "host": ("sysctl", "sysctl_persisted", "modules", "resolver"),
            "artifacts": ("artifacts", "trust", "packages", "clock"),
            "runtime": ("runtime", "services"),
            "registry": ("registry",),
            "control_plane": ("kubernetes",),
            "workers": ("kubernetes",),
            "storage_client": ("storage", "packages"),
            "storage": ("storage", "packages", "services"),
            "gpu": ("modules",),
        }
        for name in play.limit:
            if play.playbook == "node_reset":
                self.documents[name] = samples.bare(self.desired.site.node(name))
                continue
            whole = samples.converged(self.desired.site.node(name), self.desired)
            if play.playbook == "registry":
                programs = ("kubeadm_version", "kubelet_version")
                had = self.documents[name]["kubernetes"]
                new = {program: whole["kubernetes"][program] for program in programs}
                self.documents[name]["kubernetes"] = had | new
            for part in parts.get(play.playbook, ()):
                self.documents[name][part] = whole[part]
        if play.playbook == "storage" and isinstance(self.cluster, Cluster):
            self.cluster = replace(self.cluster, storage=samples.storage(self.desired))
        if play.playbook in ("control_plane", "network", "workers", "gpu"):
            before = self.cluster.nodes if isinstance(self.cluster, Cluster) else {}
            held = self.cluster.storage if isinstance(self.cluster, Cluster) else Storage()
            self.cluster = replace(samples.cluster(self.desired), storage=held)
            for name in self.cluster.nodes:
                self._mark([name], before[name].network_tested if name in before else None)


class FakeJournal:
    """Keeps records in memory, and is the site's lock as well: asked only within a ``with``."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.begun = 0
        self.entered = 0
        self.notes: tuple[str, ...] = ()
        self.refuse: ApplianceError | None = None

    def __enter__(self) -> object:
        self.entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.entered -= 1

    def look(self) -> LockVerdict:
        raise NotImplementedError

    def require(self) -> tuple[str, ...]:
        assert self.entered, "the lock is asked for outside of its with"
        self.begun += 1
        if self.refuse:
            raise self.refuse
        notes, self.notes = self.notes, ()
        return notes

    def append(self, record: Record) -> None:
        self.records.append(record)

    def durations(self) -> dict[str, float]:
        return {}

    def read(self, *, limit: int | None = None) -> list[Record]:
        return self.records[-limit:] if limit else self.records


def without_nodes(monkeypatch: pytest.MonkeyPatch) -> FakeArchive:
    """Commands take no lock on nodes, and keep their documents here."""
    from appliance.cli.site_session import SiteSession

    archive = FakeArchive()
    monkeypatch.setattr(SiteSession, "archive", archive)
    monkeypatch.setattr(SiteSession, "lock", lambda *_: FakeJournal())
    return archive


class FakeArchive:
    """Keeps documents; ``away`` makes every call fail as nodes that are away do.

    Attributes:
        passports: document -> text of those that were written before the test.
        documents: what the test writes.
    """

    def __init__(self, passports: Sequence[Passport] = ()) -> None:
        self.passports = {passport.document: passport.text() for passport in passports}
        self.documents: dict[str, str] = {}
        self.away: ApplianceError | None = None
        self.spreads = 0

    def spread(self) -> tuple[str, ...]:
        self._require()
        self.spreads += 1
        return ()

    def put(self, name: str, text: str) -> tuple[str, ...]:
        self._require()
        self.documents[name] = text
        return ()

    def get(self, name: str) -> str | None:
        self._require()
        return self.documents.get(name, self.passports.get(name))

    def names(self, folder: str) -> tuple[str, ...]:
        self._require()
        return tuple(sorted(name for name in self.documents if name.startswith(f"{folder}/")))

    def everything(self, folder: str) -> dict[str, str]:
        return {name: self.documents[name] for name in self.names(folder)}

    def _require(self) -> None:
        if self.away:
            raise self.away


class FakeEtcd:
    """Members by address; ``silent`` nodes do not answer."""

    def __init__(self, site: Site, sick: Sequence[str] = ()) -> None:
        self.found = [
            EtcdMember(
                f"{n:x}", node.name, f"https://{node.ip}:2380", healthy=node.name not in sick
            )
            for n, node in enumerate(site.control_plane, 1)
        ]
        self.silent: set[str] = set(sick)
        self.removed: list[str] = []

    def members(self, asked: Node) -> Sequence[EtcdMember]:
        if asked.name in self.silent:
            raise NodeUnreachable(f"{asked.name}: etcd does not answer")
        return list(self.found)

    def remove(self, asked: Node, member: EtcdMember) -> None:
        assert asked.name != member.name
        self.removed.append(member.name)
        self.found = [one for one in self.found if one.id != member.id]


class FakeBmcs:
    """What each BMC says; ``asked`` are the nodes whose BMC was asked."""

    def __init__(self) -> None:
        self.reports: dict[str, BmcReport] = {}
        self.asked: list[str] = []

    def report(self, node: Node) -> BmcReport | None:
        self.asked.append(node.name)
        return self.reports.get(node.name)


class FakeClock:
    """Time that only passes when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time - 1_600_000_000.0

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class FakeBundle:
    """A bundle on the control host."""

    directory = "/media/bundle"
    delta: Delta | None = None
    digest = samples.BUNDLE_DIGEST

    def __init__(self, manifest: BundleManifest, faults: tuple[str, ...] = ()) -> None:
        self.manifest = manifest
        self._faults = tuple(BundleFault(text) for text in faults)

    def faults(self) -> tuple[BundleFault, ...]:
        return self._faults


class FakeObserver:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def planned(self, plan: Plan, durations: Mapping[str, float]) -> None:  # noqa: ARG002
        self.said.append(("planned", [step.name for step in plan.steps]))

    def step_started(self, step: str, nodes: Sequence[str]) -> None:
        self.said.append(("started", step, list(nodes)))

    def task(self, step: str, node: str, task: str, *, changed: bool | None) -> None:
        self.said.append(("task", step, node, task, changed))

    def verifying(self, step: str, waiting_for: str) -> None:
        self.said.append(("verifying", step, waiting_for))

    def step_ended(self, step: str, took_seconds: float, error: ApplianceError | None) -> None:
        self.said.append(("ended", step, took_seconds, error))

    def note(self, text: str) -> None:
        self.said.append(("note", text))
