"""Pods that write to a volume, against a fake cluster that answers kubectl."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

volume_write_test = load("volume_write_test", role="nfs_volumes")
WANT = {
    "storage_class": "appliance-nfs",
    "server": "198.51.100.4",
    "path": "/srv/runai",
    "folder": "appliance-proof",
    "image": "registry.rack.test:5000/busybox@sha256:00",
    "user": 1001,
    "timeout_seconds": 5,
    "kubeconfig": "/etc/kubernetes/admin.conf",
    "kubectl": "kubectl",
    "patience_seconds": 5,
}


class FakeCluster:
    """Holds what is applied; every pod gets the status it is told to have."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.status: dict[str, Any] = {"phase": "Succeeded"}
        self.events: list[dict[str, Any]] = []
        self.refuse_pods = 0
        self.deleted_by_others = False
        self.notes: dict[str, str] = {}
        self.nodes = {"cp1": "True", "w1": "True", "w2": "Unknown"}

    def run(self, argv: Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        words = [word for word in argv[1:] if not word.startswith("--")]
        self.calls.append(" ".join(words))
        if data is not None:
            return self.apply(json.loads(data))
        if words[0] == "get":
            return 0, json.dumps(self.get(words[3])), ""
        if words[0] == "annotate":
            self.notes = dict([words[3].split("=", 1)])
        if words[0] == "delete":
            self.objects.clear()
        return 0, "", ""

    def apply(self, item: dict[str, Any]) -> tuple[int, str, str]:
        if item["kind"] == "Pod" and self.refuse_pods:
            self.refuse_pods -= 1
            return 1, "", "serviceaccount default not found"
        if not (item["kind"] == "Pod" and self.deleted_by_others):
            self.objects[f"{item['kind']}/{item['metadata']['name']}"] = item
        return 0, "", ""

    def get(self, kind: str) -> dict[str, Any]:
        if kind == "nodes":
            return {"items": [self.node(name, ready) for name, ready in self.nodes.items()]}
        if kind == "storageclass":
            return {"metadata": {"annotations": self.notes}}
        if kind == "events":
            return {"items": self.events}
        pods = [item for item in self.objects.values() if item["kind"] == "Pod"]
        return {"items": [{**pod, "status": self.status} for pod in pods]}

    @staticmethod
    def node(name: str, ready: str) -> dict[str, Any]:
        conditions = [{"type": "Ready", "status": ready}]
        return {"metadata": {"name": name}, "status": {"conditions": conditions}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def kubectl_of(cluster: FakeCluster) -> Any:
    """A kubectl whose time passes when it sleeps."""
    kubectl = volume_write_test.Kubectl(cluster.run)
    now = [0.0]
    kubectl.clock = lambda: now[0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    kubectl.sleep = sleep
    return kubectl


def written_by(cluster: FakeCluster) -> Any:
    return volume_write_test.test(kubectl_of(cluster), WANT, cluster.run)


def alone(cluster: FakeCluster, lock: Path) -> Any:
    return volume_write_test.run_alone(kubectl_of(cluster), WANT, cluster.run, lock)


def test_a_pod_of_every_ready_node_writes_and_nothing_is_left(cluster: FakeCluster) -> None:
    seen: dict[str, dict[str, Any]] = {}
    apply = cluster.apply

    def remember(item: dict[str, Any]) -> tuple[int, str, str]:
        seen[f"{item['kind']}/{item['metadata']['name']}"] = item
        return apply(item)

    cluster.apply = remember  # type: ignore[method-assign]
    assert written_by(cluster) == ["cp1", "w1"]
    assert cluster.objects == {}
    name = volume_write_test.NAME
    volume = seen[f"PersistentVolume/{name}"]["spec"]
    assert volume["nfs"] == {"server": "198.51.100.4", "path": "/srv/runai/appliance-proof"}
    assert volume["claimRef"] == {"namespace": name, "name": name}
    assert volume["persistentVolumeReclaimPolicy"] == "Retain"
    assert seen[f"PersistentVolumeClaim/{name}"]["spec"]["volumeName"] == name
    pod = seen["Pod/write-w1"]["spec"]
    assert pod["nodeName"] == "w1"
    assert pod["securityContext"] == {"runAsUser": 1001, "runAsGroup": 1001}
    assert pod["tolerations"] == [{"operator": "Exists"}]


def test_a_namespace_needs_a_moment_before_pods(cluster: FakeCluster) -> None:
    cluster.refuse_pods = 3
    assert written_by(cluster) == ["cp1", "w1"]


def test_an_api_that_refuses_for_good_is_reported(cluster: FakeCluster) -> None:
    cluster.refuse_pods = 1000
    with pytest.raises(
        volume_write_test.KubectlError, match="apply of Pod: serviceaccount default"
    ):
        written_by(cluster)
    assert cluster.calls[-1].startswith("delete persistentvolume")


@pytest.mark.parametrize(
    ("status", "events", "words"),
    [
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 1, "message": "wrote as\n1001"}}}
                ],
            },
            [],
            "ended with 1: wrote as 1001",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [
                    {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such"}}}
                ],
            },
            [],
            "ImagePullBackOff: no such",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
            },
            [
                {"type": "Normal", "reason": "Pulled", "message": ""},
                {"type": "Warning", "reason": "FailedMount", "message": "mount failed:\n exit 32"},
            ],
            "FailedMount: mount failed: exit 32",
        ),
        ({"phase": "Pending"}, [], "still Pending"),
    ],
)
def test_a_pod_that_does_not_write_says_why(
    cluster: FakeCluster, status: dict[str, Any], events: list[dict[str, Any]], words: str
) -> None:
    cluster.status, cluster.events = status, events
    with pytest.raises(volume_write_test.WriteTestError) as told:
        written_by(cluster)
    assert f"the pod of w1 did not write to its volume: {words}" in str(told.value)
    assert cluster.objects == {}, "what was made for the proof is taken away"


def test_pods_that_others_deleted_are_reported(cluster: FakeCluster) -> None:
    cluster.deleted_by_others = True
    with pytest.raises(volume_write_test.WriteTestError, match="the pods of cp1, w1 are gone"):
        written_by(cluster)


def test_without_a_ready_node_nothing_can_be_tested(cluster: FakeCluster) -> None:
    cluster.nodes = {"w1": "Unknown"}
    with pytest.raises(volume_write_test.WriteTestError, match="no node is Ready"):
        written_by(cluster)


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """The module of a run that was killed still works."""
    lock.parent.mkdir(parents=True)
    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield


def test_a_proof_that_another_run_carries_out_is_waited_for(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    lock = tmp_path / "run" / "lock"
    with (
        held(lock),
        pytest.raises(volume_write_test.WriteTestError, match="another run has tested"),
    ):
        alone(cluster, lock)
    assert cluster.calls == [], "the namespace of the other run is left alone"
    assert alone(cluster, lock) == ["cp1", "w1"]
    assert cluster.notes == {volume_write_test.ANNOTATION: "198.51.100.4:/srv/runai"}


def test_a_test_that_another_run_passed_meanwhile_is_not_repeated(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.notes = {volume_write_test.ANNOTATION: "198.51.100.4:/srv/runai"}
    assert alone(cluster, tmp_path / "lock") is None
    assert cluster.objects == {}


def test_the_lock_is_released_after_a_fault(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.deleted_by_others = True
    with pytest.raises(volume_write_test.WriteTestError, match="are gone"):
        alone(cluster, tmp_path / "lock")
    cluster.deleted_by_others = False
    assert alone(cluster, tmp_path / "lock") == ["cp1", "w1"]
