"""One verdict on a pod: the package and the modules on nodes say the same of the same document."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import ApiClient

from appliance.adapters.kubernetes.objects import pod_faults, pod_of
from appliance.model.state.cluster.pods import PodFault
from tests.unit.modules.loading import load_utils

on_nodes = load_utils("appliance_pods")
READY = {"type": "Ready", "status": "True"}
UNREADY = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "[c]"}
UNSCHEDULED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available",
}


def container(name: str, ready: bool = False, **state: Any) -> dict[str, Any]:
    return {
        "name": name,
        "image": "r/c:1",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }


def waits(name: str, reason: str, message: str | None = None) -> dict[str, Any]:
    more = {} if message is None else {"message": message}
    return container(name, waiting={"reason": reason, **more})


RUNS: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str, str]]]] = {
    "ready": (
        {"conditions": [READY], "containerStatuses": [container("c", ready=True, **RUNS)]},
        [],
    ),
    "nothing is known": ({}, []),
    "an image that cannot be pulled": (
        {"conditions": [UNREADY], "containerStatuses": [waits("c", "ErrImagePull", "no host")]},
        [("c", "ErrImagePull", "no host")],
    ),
    "no message": (
        {"containerStatuses": [waits("c", "ContainerCreating")]},
        [("c", "ContainerCreating", "")],
    ),
    "init containers tell the reason": (
        {
            "initContainerStatuses": [waits("init", "CrashLoopBackOff", "back-off 10s")],
            "containerStatuses": [waits("c", "PodInitializing")],
        },
        [("init", "CrashLoopBackOff", "back-off 10s")],
    ),
    "one of two ended with an error": (
        {
            "containerStatuses": [
                container("a", terminated={"exitCode": 0, "reason": "Completed"}),
                container("b", terminated={"exitCode": 137, "reason": "OOMKilled"}),
            ]
        },
        [("b", "ended with code 137", "")],
    ),
    "no node": (
        {"phase": "Pending", "conditions": [UNSCHEDULED]},
        [("", "Unschedulable", "0/3 nodes are available")],
    ),
    "evicted": (
        {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."},
        [("", "Evicted", "The node was low on memory.")],
    ),
    "runs without being ready": (
        {"conditions": [UNREADY], "containerStatuses": [container("c", **RUNS)]},
        [],
    ),
}


def documents(status: dict[str, Any], **metadata: str) -> tuple[dict[str, Any], Any]:
    """A pod as kubectl prints it, and as the client of the control host reads it."""
    document = {
        "metadata": {"name": "p", "namespace": "n", **metadata},
        "spec": {"containers": [{"name": "c"}]},
        "status": status,
    }
    # The public method takes other arguments in other versions of the client.
    read = getattr(ApiClient(), "_ApiClient__deserialize")  # noqa: B009
    return document, read(document, "V1Pod")


@pytest.mark.parametrize(("status", "faults"), CASES.values(), ids=CASES)
def test_both_give_the_same_faults_of_a_pod(
    status: dict[str, Any], faults: list[tuple[str, str, str]]
) -> None:
    document, read = documents(status)
    here = pod_faults(read)
    assert [(f.container, f.reason, f.message) for f in here] == faults
    on_node = on_nodes.pod_faults(document)
    assert [tuple(fault) for fault in on_node] == faults
    assert [fault.words for fault in here] == [on_nodes.words(fault) for fault in on_node]


@pytest.mark.parametrize(
    ("condition", "metadata", "ready"),
    [
        (READY, {}, True),
        (UNREADY, {}, False),
        (READY, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_both_call_a_pod_ready_that_is_ready_and_stays(
    condition: dict[str, str], metadata: dict[str, str], ready: bool
) -> None:
    document, read = documents({"conditions": [condition]}, **metadata)
    assert pod_of(read).ready is ready
    assert on_nodes.is_ready(document) is ready


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (PodFault("c", "ErrImagePull", "no host"), "c: ErrImagePull no host"),
        (PodFault("c", "ContainerCreating"), "c: ContainerCreating"),
        (PodFault("", "Unschedulable", "0/3 nodes"), "Unschedulable: 0/3 nodes"),
        (PodFault("", "", "The node was low on memory."), "The node was low on memory."),
    ],
)
def test_a_fault_names_its_container(fault: PodFault, sentence: str) -> None:
    assert fault.sentence == sentence
