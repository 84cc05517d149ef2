"""What the API's answers mean: releases, the operator's word, and pods that list their GPUs."""

from __future__ import annotations

from types import SimpleNamespace as Thing
from typing import Any

from appliance.adapters.kubernetes.gpu import operator_of, state_of
from appliance.adapters.kubernetes.objects import whole_gpus
from appliance.adapters.kubernetes.pod_tests.gpu import judged, lister
from appliance.adapters.kubernetes.releases import newest
from appliance.model.state.cluster import (
    CHART_ANNOTATION,
    SITE_VALUES_ANNOTATION,
    VALUES_ANNOTATION,
    GpuOperator,
)

UUID = "GPU-818033ed-a1f2-53af-bae8-f91ef4a28db"


def secret(name: str, version: int, status: str, **more: Any) -> dict[str, Any]:
    labels = {"name": name, "version": str(version), "status": status, "owner": "helm"}
    return {"namespace": "there", "labels": labels, **more}


def pod(node: str, phase: str, message: str = "", reason: str | None = None) -> Thing:
    ended = Thing(terminated=Thing(message=message, exit_code=int(phase == "Failed")), waiting=None)
    waiting = Thing(terminated=None, waiting=Thing(reason=reason, message="no such image"))
    return Thing(
        spec=Thing(node_name=node),
        status=Thing(
            phase=phase,
            reason=None,
            message=None,
            conditions=None,
            init_container_statuses=None,
            container_statuses=[Thing(name="list", state=waiting if reason else ended)],
        ),
    )


def lines(count: int) -> str:
    return "".join(f"GPU {i}: NVIDIA A100 (UUID: {UUID}{i})\n" for i in range(count))


def test_the_newest_revision_of_each_release_counts() -> None:
    notes = {CHART_ANNOTATION: "c", VALUES_ANNOTATION: "v", SITE_VALUES_ANNOTATION: "s"}
    found = newest(
        [
            secret("web", 10, "deployed", annotations=notes),
            secret("web", 9, "superseded"),
            secret("db", 1, "pending-install", annotations=None),
            {"namespace": "there", "labels": {"owner": "helm"}},
        ]
    )
    assert [(r.name, r.revision, r.status, r.chart_sha256, r.values_sha256) for r in found] == [
        ("web", 10, "deployed", "c", "v"),
        ("db", 1, "pending-install", None, None),
    ]
    assert [release.site_values_sha256 for release in found] == ["s", None]


def test_the_operators_word_may_be_missing() -> None:
    assert state_of([]) is None
    assert state_of([{}]) == "unknown"
    assert state_of([{"status": {"state": "ready"}}]) == "ready"


def test_an_operator_is_recognised_by_its_deployment() -> None:
    labels = {"app.kubernetes.io/version": "v1.11.1"}
    helm = {"meta.helm.sh/release-name": "op"}
    metadata = Thing(namespace="nvidia", labels=labels, annotations=helm)
    assert operator_of(metadata) == GpuOperator("nvidia", "op", "1.11.1")
    bare = Thing(namespace="nvidia", labels=None, annotations=None)
    assert operator_of(bare) == GpuOperator("nvidia", None, None)


def test_whole_gpus_are_counted_by_what_is_allocatable() -> None:
    assert whole_gpus({"nvidia.com/gpu": "8", "nvidia.com/gpu.shared": "32"}) == 8
    assert whole_gpus({}) == whole_gpus(None) == 0
    assert [whole_gpus({"nvidia.com/gpu": text}) for text in ("1k", "1e99", "-1")] == [1000, 0, 0]


def test_a_pod_that_lists_what_it_asked_for_proves_its_node() -> None:
    proof = judged({"w1": 2}, [pod("w1", "Succeeded", lines(2))])
    assert proof.faults == ()
    assert len(proof.listed["w1"]) == 2


def test_a_node_whose_gpus_all_work_is_not_asked() -> None:
    proof = judged({"w1": 0}, [])
    assert (proof.faults, proof.listed) == ((), {"w1": ()})


def test_too_few_the_same_twice_or_other_words_are_faults() -> None:
    for message, seen in (
        (lines(1), 1),
        (lines(1) * 2, 1),
        ("sh: nvidia-smi: not found", 0),
        ("Failed to initialize NVML: Driver/library version mismatch", 0),
    ):
        proof = judged({"w1": 2}, [pod("w1", "Failed", message)])
        ((node, text),) = proof.faults
        assert node == "w1"
        assert text.startswith(f"a pod with 2 GPUs lists {seen} of them: {message.strip()[:20]}")


def test_a_pod_that_does_not_start_is_reported_with_its_reason() -> None:
    proof = judged({"w1": 1}, [pod("w1", "Pending", reason="ErrImagePull")])
    assert proof.faults_of("w1") == ("its test pod does not start: ErrImagePull no such image",)
    assert judged({"w1": 1}, []).faults_of("w1")


def test_the_pod_goes_past_the_scheduler_and_asks_for_whole_gpus() -> None:
    made = lister("w1", "registry/cuda@sha256:0", 3)["spec"]
    assert made["nodeName"] == "w1"
    assert made["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "3"}
