"""What the API's answers mean: releases, the operator's word, and pods that list their GPUs."""

from __future__ import annotations

from types import SimpleNamespace as Thing
from typing import Any

from appliance.adapters.kubernetes.gpu import discovery_of, operator_of, state_of, templates_of
from appliance.adapters.kubernetes.objects import devices_of
from appliance.adapters.kubernetes.pod_tests.gpu import judged, lister
from appliance.adapters.kubernetes.releases import newest
from appliance.model.components.gpu.offers import DeviceRequest
from appliance.model.state.cluster.cluster import (
    CHART_ANNOTATION,
    SITE_VALUES_ANNOTATION,
    VALUES_ANNOTATION,
    Discovery,
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
            container_statuses=[Thing(name="gpu", state=waiting if reason else ended)],
        ),
    )


def whole(count: int) -> tuple[DeviceRequest, ...]:
    return (DeviceRequest("nvidia.com/gpu", count),)


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


def test_devices_are_counted_by_resource_and_other_resources_are_not() -> None:
    found = devices_of({"nvidia.com/gpu": "8", "nvidia.com/mig-1g.5gb": "14", "cpu": "64"})
    assert found == {"nvidia.com/gpu": 8, "nvidia.com/mig-1g.5gb": 14}
    assert devices_of({}) == devices_of(None) == devices_of({"nvidia.com/\x1b[2J": "1"}) == {}
    counts = [devices_of({"nvidia.com/gpu": text}) for text in ("1k", "1e99", "-1")]
    assert [found["nvidia.com/gpu"] for found in counts] == [1000, 0, 0]


def test_a_pod_that_lists_what_it_asked_for_proves_its_node() -> None:
    proof = judged({"w1": whole(2)}, [pod("w1", "Succeeded", lines(2))])
    assert proof.faults == ()
    assert len(proof.listed["w1"]) == 2


def test_a_node_whose_gpus_all_work_is_not_asked() -> None:
    proof = judged({"w1": ()}, [])
    assert (proof.faults, proof.listed) == ((), {"w1": ()})


def test_too_few_the_same_twice_or_other_words_are_faults() -> None:
    for message, seen in (
        (lines(1), 1),
        (lines(1) * 2, 1),
        ("sh: nvidia-smi: not found", 0),
        ("Failed to initialize NVML: Driver/library version mismatch", 0),
    ):
        proof = judged({"w1": whole(2)}, [pod("w1", "Failed", message)])
        ((node, text),) = proof.faults
        assert node == "w1"
        assert text.startswith(f"a pod with 2 GPUs lists {seen} of them: {message.strip()[:20]}")


def test_a_pod_that_does_not_start_is_reported_with_its_reason() -> None:
    proof = judged({"w1": whole(1)}, [pod("w1", "Pending", reason="ErrImagePull")])
    assert proof.faults_of("w1") == ("its test pod does not start: ErrImagePull no such image",)
    assert judged({"w1": whole(1)}, []).faults_of("w1")


def test_the_pod_goes_past_the_scheduler_and_asks_for_whole_gpus() -> None:
    made = lister("w1", "registry/cuda@sha256:0", whole(3))["spec"]
    assert made["nodeName"] == "w1"
    assert made["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "3"}


MIG = "  MIG 1g.5gb     Device  {0}: (UUID: MIG-818033ed-a1f2-53af-bae8-f91ef4a28db{0})\n"


def test_mig_devices_are_counted_and_not_the_gpus_that_they_are_on() -> None:
    text = lines(1) + "".join(MIG.format(number) for number in range(3))
    proof = judged({"w1": whole(3)}, [pod("w1", "Succeeded", text)])
    assert proof.faults == ()
    assert [line.split()[:2] for line in proof.listed["w1"]] == [["MIG", "1g.5gb"]] * 3
    short = judged({"w1": whole(3)}, [pod("w1", "Succeeded", lines(3))])
    assert short.faults == ()


def test_each_resource_of_a_node_has_a_container_of_its_own() -> None:
    requests = (DeviceRequest("nvidia.com/gpu", 1), DeviceRequest("nvidia.com/mig-1g.5gb", 7))
    made = lister("w1", "registry/cuda@sha256:0", requests)["spec"]["containers"]
    assert [(c["name"], c["resources"]["limits"]) for c in made] == [
        ("gpu", {"nvidia.com/gpu": "1"}),
        ("mig-1g-5gb", {"nvidia.com/mig-1g.5gb": "7"}),
    ]
    proof = judged({"w1": requests}, [pod("w1", "Succeeded", lines(1))])
    assert proof.faults == (
        ("w1", "a pod with 7 nvidia.com/mig-1g.5gb lists 0 of them: Succeeded"),
    )


def daemon_set(name: str, *images: str, release: str | None = None) -> Thing:
    notes = {"meta.helm.sh/release-name": release} if release else None
    containers = [Thing(image=image) for image in images]
    spec = Thing(template=Thing(spec=Thing(containers=containers)))
    return Thing(metadata=Thing(namespace="there", name=name, annotations=notes), spec=spec)


def test_what_labels_nodes_is_told_by_its_image_in_whichever_registry_it_is() -> None:
    nfd = "registry.k8s.io:443/nfd/node-feature-discovery:v0.10.1"
    found = discovery_of(daemon_set("x", "pause", nfd, release="nfd"))
    assert found == Discovery("NFD", "there", "x", "nfd")
    gfd = discovery_of(daemon_set("y", f"r:5000/gpu-feature-discovery@sha256:{'0' * 64}"))
    assert gfd == Discovery("GFD", "there", "y")
    assert discovery_of(daemon_set("node-feature-discovery", "busybox:1")) is None


def test_the_newest_template_of_each_daemon_set_counts() -> None:
    def revision(name: str, number: int, digest: str | None, kind: str = "DaemonSet") -> Thing:
        labels = {"controller-revision-hash": digest} if digest else None
        owners = [Thing(kind=kind, name=name)]
        return Thing(metadata=Thing(labels=labels, owner_references=owners), revision=number)

    found = templates_of(
        [
            revision("driver", 2, "new"),
            revision("driver", 1, "old"),
            revision("plugin", 7, None),
            revision("database", 1, "x", "StatefulSet"),
            Thing(metadata=Thing(labels=None, owner_references=None), revision=1),
        ]
    )
    assert found == {"driver": "new", "plugin": ""}
