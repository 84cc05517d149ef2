"""A cluster that may be upgraded, and what a case changes of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from appliance.model.node.drain import Concern, Forecast
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import GpuOperator, Unreachable
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance
from appliance.model.state.observed import Fault, Observed
from appliance.model.upgrade.evidence import (
    BundleEvidence,
    DeprecatedUse,
    EtcdStatus,
    Evidence,
    Silence,
    SnapshotProof,
)
from appliance.model.upgrade.gates import gates, stopping
from appliance.model.upgrade.handmade.loss import Loss
from tests import samples
from tests.unit.upgrade.situations import HOPS, NEW, NEXT

GB = 1000**3
EPOCH = 1_700_000_000.0
MASTERS, WORKERS = 3, 2
NAMES = {
    *(
        "bundle",
        "images",
        "runai",
        "runai-runtime",
        "gpu-operator",
        "gpu-toolkit",
        "deprecated-apis",
        "dropped",
        "nodes",
    ),
    *("docker", "budgets", "certificates", "disk", "time", "etcd", "snapshot"),
}


def forecast(node: str, *concerns: Concern) -> Forecast:
    return Forecast(node, (), (), (), concerns, {}, {})


def member(number: int, **changes: Any) -> EtcdStatus:
    found = EtcdStatus(f"cp{number}", True, f"a{number}", "a1", 1000, "3.5.1", 50 << 20)
    return replace(found, **changes)


def facts_of(site: Site) -> dict[str, dict[str, Any]]:
    documents = {node.name: copy.deepcopy(samples.bare(node)) for node in site.cluster_members}
    for name, document in documents.items():
        document["clock"] |= {"synchronised": True, "offset_seconds": 0.01}
        document["filesystems"] = [
            {
                "mount": "/",
                "free_bytes": 50 * GB,
                "for": ["/", "/var", "/var/lib/docker", "/var/lib/etcd", "/var/lib/appliance"],
            }
        ]
        document["runtime"]["docker"] = {"version": "20.10", "foreign_running": []}
        document["kubernetes"]["etcd_data"] = {"present": True, "bytes": GB // 10}
        kubelet = "/var/lib/kubelet/pki/kubelet-client-current.pem"
        files = ["/etc/kubernetes/pki/apiserver.crt", kubelet] if name[0] == "c" else [kubelet]
        document["kubernetes"]["pki"] = [
            {"path": path, "not_after": "2024-11-14T00:00:00+00:00"} for path in files
        ]
    return documents


@dataclass
class Scene:
    """Everything is well; a case changes one thing."""

    site: Site = field(default_factory=lambda: samples.site(MASTERS, WORKERS))
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    cluster: Any = None
    evidence: Evidence = field(default_factory=Evidence)
    faults: tuple[Fault, ...] = ()
    path: tuple[str, ...] = (NEW,)

    def __post_init__(self) -> None:
        self.facts = facts_of(self.site)
        self.cluster = samples.cluster(samples.desired(self.site))
        self.evidence = Evidence(
            bundles={NEW: BundleEvidence(NEW, mirrored=True), NEXT: BundleEvidence(NEXT)},
            absent_images={node.name: () for node in self.site.cluster_members},
            etcd=tuple(member(number) for number in (1, 2, 3)),
            snapshot=SnapshotProof("cp1", "/a.db", "ab", 9, 990, 400, "cd"),
            forecasts={node.name: forecast(node.name) for node in self.site.cluster_members},
            losses=(),
            deprecated=(),
            runai=None,
            runtimes_change=False,
            changing=frozenset(),
            runai_runtime=None,
            window_seconds=3600.0,
            image_bytes=GB,
        )

    def judge(self) -> tuple[tuple[str, str, str], ...]:
        """Verdict, name and node of each gate that stops."""
        observed = Observed(samples.node_facts(self.facts), self.cluster, self.faults)
        found = gates(self.site, observed, self.evidence, [HOPS[name] for name in self.path])
        assert {gate.name for gate in found} == NAMES
        assert all(gate.found and gate.expected for gate in found)
        assert all(gate.cure for gate in stopping(found))
        assert all("\n" not in gate.sentence() for gate in found)
        return tuple((gate.verdict, gate.name, gate.node) for gate in stopping(found))


def asked(**changes: Any) -> Callable[[Scene], None]:
    """The evidence differs."""

    def change(scene: Scene) -> None:
        scene.evidence = replace(scene.evidence, **changes)

    return change


def fact(node: str, path: str, value: object) -> Callable[[Scene], None]:
    """A node's facts differ."""

    def change(scene: Scene) -> None:
        here = scene.facts[node]
        *above, last = path.split(".")
        for key in above:
            here = here[key]
        here[last] = value

    return change


def node_object(name: str, **changes: Any) -> Callable[[Scene], None]:
    """A Node object differs."""

    def change(scene: Scene) -> None:
        nodes = dict(scene.cluster.nodes)
        nodes[name] = replace(nodes[name], **changes)
        scene.cluster = replace(scene.cluster, nodes=nodes)

    return change


def away(name: str) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        del scene.facts[name]
        scene.faults = (Fault(name, "ssh: timed out", "ping it"),)

    return change


def no_api(scene: Scene) -> None:
    scene.cluster = Unreachable("nothing answers")


def no_member(scene: Scene) -> None:
    nodes = {name: one for name, one in scene.cluster.nodes.items() if name != "w1"}
    scene.cluster = replace(scene.cluster, nodes=nodes)


def operator(version: str | None) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        one = GpuOperator("gpu-operator", version=version)
        scene.cluster = replace(scene.cluster, gpu_operators=(one,))

    return change


def along(*path: str) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        scene.path = path

    return change


def etcd(*members: EtcdStatus) -> Callable[[Scene], None]:
    return asked(etcd=members)


def annotated(one: Maintenance) -> dict[str, str]:
    return {ANNOTATION: one.as_text()}


def uses(*removed: str) -> Callable[[Scene], None]:
    return asked(
        deprecated=tuple(DeprecatedUse("policy", "v1beta1", "psp", one) for one in removed)
    )


def disk(node: str, free: float, *, etcd_bytes: int = GB // 10) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        scene.facts[node]["filesystems"][0]["free_bytes"] = int(free * GB)
        scene.facts[node]["kubernetes"]["etcd_data"]["bytes"] = etcd_bytes

    return change


def certificate(node: str, days: float) -> Callable[[Scene], None]:
    """A certificate of a node ends in so many days."""

    def change(scene: Scene) -> None:
        end = datetime.fromtimestamp(EPOCH + days * 86_400, UTC).isoformat()
        scene.facts[node]["kubernetes"]["pki"][0]["not_after"] = end

    return change


def blocks(node: str) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        assert not isinstance(scene.evidence.forecasts, Silence)
        found = dict(scene.evidence.forecasts)
        found[node] = forecast(
            node,
            Concern("blocks", "a/b", "PodDisruptionBudget x allows no disruption now"),
            Concern("loses", "a/c", "has no controller"),
        )
        scene.evidence = replace(scene.evidence, forecasts=found)

    return change


def loss(name: str, **more: Any) -> Loss:
    return Loss(name, ("w1",), "200", "110", **more)
