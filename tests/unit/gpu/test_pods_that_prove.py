"""The proof's pods around a restart of a kubelet, which offers no GPU until the plugin is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace as Thing
from typing import Any, cast

import pytest
from kubernetes import client

from appliance.adapters.kubernetes.api import KubernetesApi
from appliance.adapters.kubernetes.pod_tests import engine, gpu
from appliance.errors import ClusterError, StepNotVerified
from appliance.model.state.observed import GpuTestResult

UUID = "GPU-818033ed-a1f2-53af-bae8-f91ef4a28db"
LATE = "UnexpectedAdmissionError"


class Cluster:
    """Node w1 with two GPUs; ``offers`` and ``ends`` are given out in turn, the last for ever."""

    def __init__(self, offers: list[int], ends: list[str], used: int = 0) -> None:
        self.offers = offers
        self.ends = ends
        self.used = used
        self.used_then = used
        self.now = 0.0
        self.made: list[Thing] = []
        self.deleted = False

    @contextmanager
    def any_client(self) -> Iterator[None]:
        yield

    def create_namespace(self, *_: Any, **__: Any) -> None:
        """Nothing to remember."""

    def delete_namespace(self, *_: Any, **__: Any) -> None:
        self.deleted = True

    def read_node(self, _name: str, **_: Any) -> Thing:
        offered = self.offers.pop(0) if len(self.offers) > 1 else self.offers[0]
        status = Thing(allocatable={"nvidia.com/gpu": str(offered)})
        return Thing(metadata=Thing(labels=None), status=status)

    def list_pod_for_all_namespaces(self, **_: Any) -> Thing:
        limits = {"nvidia.com/gpu": str(self.used)}
        spec = Thing(containers=[Thing(resources=Thing(limits=limits))])
        return Thing(items=[Thing(spec=spec, status=Thing(phase="Running"))])

    def create_namespaced_pod(self, _namespace: str, body: dict[str, Any], **_: Any) -> Thing:
        count = int(body["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        lines = "".join(f"GPU {i}: NVIDIA (UUID: {UUID}{i})\n" for i in range(count))
        state = Thing(terminated=Thing(message=lines, exit_code=0), waiting=None)
        said = [Thing(name="gpu", state=state)]
        none: dict[str, Any] = {"conditions": None, "init_container_statuses": None}
        status = Thing(phase=end, reason=None, message=None, container_statuses=said, **none)
        if end not in ("Succeeded", "Failed"):
            status = Thing(
                phase="Failed", reason=end, message="no GPU", container_statuses=None, **none
            )
            self.used = self.used_then
        name = f"gpus-{9 - len(self.made)}"
        pod = Thing(metadata=Thing(name=name), spec=Thing(node_name="w1"), status=status)
        self.made.append(pod)
        return pod

    def list_namespaced_pod(self, _namespace: str, **_: Any) -> Thing:
        return Thing(items=sorted(self.made, key=lambda pod: str(pod.metadata.name)))

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def prove(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[], None] = lambda: None,
) -> GpuTestResult:
    monkeypatch.setattr(client, "CoreV1Api", lambda _: cluster)
    monkeypatch.setattr(engine, "time", Thing(monotonic=lambda: cluster.now, sleep=cluster.sleep))
    api = cast(KubernetesApi, cluster)
    return gpu.run_gpu_test(api, ["w1"], "registry/cuda@sha256:0", meanwhile, patience_seconds=30)


def test_what_is_to_be_done_meanwhile_finds_the_pods_made(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, seen = Cluster([2], ["Succeeded"]), []
    prove(cluster, monkeypatch, lambda: seen.append(len(cluster.made)))
    assert seen == [1]


def test_what_fails_meanwhile_leaves_no_pods_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise StepNotVerified("w1: no answer from the pod on w2")

    cluster = Cluster([2], ["Succeeded"])
    with pytest.raises(StepNotVerified, match="no answer"):
        prove(cluster, monkeypatch, fail)
    assert cluster.deleted


def test_gpus_that_are_offered_a_moment_later_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster([0, 0, 2], ["Succeeded"])
    proof = prove(cluster, monkeypatch)
    assert proof.faults == ()
    assert len(proof.listed["w1"]) == 2


class Leaderless(Cluster):
    """No controller manager leads: it gives the new namespace no service account until then."""

    def __init__(self, until: float, words: str) -> None:
        super().__init__([2], ["Succeeded"])
        self.until, self.words = until, words

    def create_namespaced_pod(self, _namespace: str, body: dict[str, Any], **_: Any) -> Thing:
        if self.now < self.until:
            error = client.ApiException(status=403, reason="Forbidden")
            error.body = f'pods "gpus-" is forbidden: {self.words}'
            raise error
        return super().create_namespaced_pod(_namespace, body)


LACKS = 'error looking up service account x/default: serviceaccount "default" not found'


def test_a_namespace_gets_its_service_account_once_a_controller_manager_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Leaderless(17, LACKS)
    proof = prove(cluster, monkeypatch)
    assert (proof.faults, len(cluster.made)) == ((), 1)
    assert 17 <= cluster.now < 20


@pytest.mark.parametrize(
    ("words", "waits"), [(LACKS, True), ("exceeded quota: none", False)], ids=["never", "another"]
)
def test_a_pod_that_may_not_be_made_at_all_is_no_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch, words: str, waits: bool
) -> None:
    cluster = Leaderless(1e9, words)
    with pytest.raises(ClusterError, match="403 Forbidden"):
        prove(cluster, monkeypatch)
    assert cluster.deleted
    assert (cluster.now >= engine.ACCOUNT_SECONDS, cluster.now > 0) == (waits, waits)


def test_gpus_that_are_never_offered_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([0], ["Succeeded"])
    proof = prove(cluster, monkeypatch)
    assert proof.listed == {}
    assert proof.faults_of("w1") == ("pods can request no nvidia.com/gpu on it",)
    assert (cluster.made, cluster.now >= 30) == ([], True)


def test_gpus_that_are_all_at_work_need_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([2], ["Succeeded"], used=2)
    assert prove(cluster, monkeypatch) == GpuTestResult({"w1": ()})
    assert (cluster.made, cluster.now) == ([], 0)


@pytest.mark.parametrize("reason", [LATE, "OutOfnvidia.com/gpu"])
def test_a_pod_that_was_not_admitted_is_recreated(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster([2, 0, 2], [reason, "Succeeded"])
    proof = prove(cluster, monkeypatch)
    assert (proof.faults, len(proof.listed["w1"]), len(cluster.made)) == ((), 2, 2)


def test_gpus_that_others_were_faster_to_take_are_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([2], ["OutOfnvidia.com/gpu"])
    cluster.used_then = 2
    assert prove(cluster, monkeypatch) == GpuTestResult({"w1": ()})
    assert cluster.now < 5


def test_a_node_that_never_admits_a_pod_is_a_fault_in_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster([2], [LATE])
    assert LATE in prove(cluster, monkeypatch).faults_of("w1")[0]
    assert 10 <= len(cluster.made) <= 20


def test_a_pod_that_failed_at_its_work_is_not_recreated(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([2], ["Failed"])
    prove(cluster, monkeypatch)
    assert len(cluster.made) == 1
