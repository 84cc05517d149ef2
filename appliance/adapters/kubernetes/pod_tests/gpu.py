"""Test GPUs with real pods: each asks for what is free on its node and lists what it was given.

A node whose GPUs all work already needs no pod: the pods that use them show that they work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appliance.adapters.kubernetes.objects import gpus_asked, pod_faults, whole_gpus
from appliance.adapters.kubernetes.pod_tests.engine import (
    TEST_TIMEOUT,
    PodTest,
    own_namespace,
)
from appliance.model.components.gpu.operator import RESOURCE
from appliance.model.state.observed import GpuTestResult
from appliance.model.state.pods import ENDED

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection import ApiConnection

LISTED = re.compile(r"^GPU \d+: .+ \(UUID: (GPU-[0-9a-f-]{36})\)$")
# How a pod fails whose GPUs went away, or to others, after it was made.
NOT_ADMITTED = ("UnexpectedAdmissionError", "OutOf")
PAUSE_SECONDS = 0.3
REPEAT_SECONDS = 2.0
_LIST = "nvidia-smi -L >/dev/termination-log 2>&1"


def run_gpu_test(
    api: ApiConnection,
    nodes: Sequence[str],
    image: str,
    meanwhile: Callable[[], None],
    *,
    patience_seconds: float = 180,
) -> GpuTestResult:
    """Test the GPUs of ``nodes``.

    Args:
        api: the site's cluster.
        nodes: names of Node objects that offer GPUs.
        image: ``NAME:PORT/IMAGE@sha256:…`` with a shell.
        meanwhile: is called once, when the pods have been asked for.
        patience_seconds: how long nodes may take to offer GPUs, and pods to end.

    Raises:
        ClusterError: the API refused what the test needs.
    """
    from kubernetes.client import CoreV1Api

    with own_namespace(api, "GPU test") as (client, namespace):
        test = GpuTest(CoreV1Api(client), namespace, image, dict.fromkeys(nodes))
        return test.carry_out(patience_seconds, meanwhile)


@dataclass
class GpuTest(PodTest[GpuTestResult]):
    """A pod on each node lists the GPUs that it was given.

    Attributes:
        asked: node -> how many GPUs its pod asks for; None until the node offers some.
        names: node -> its pod.
        pods: as they were when they were last looked at.
        refused: nodes whose kubelet did not admit the pod then.
    """

    core: Any
    namespace: str
    image: str
    asked: dict[str, int | None]
    names: dict[str, str] = field(default_factory=dict)
    pods: list[Any] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def start(self) -> None:
        """A pod on each node that offers GPUs and has none yet."""
        for node in [node for node, count in self.asked.items() if count is None]:
            self.asked[node] = count = _free(self.core, node)
            if count:
                body = lister(node, self.image, count)
                made = self.core.create_namespaced_pod(
                    self.namespace, body, _request_timeout=TEST_TIMEOUT
                )
                self.names[node] = made.metadata.name

    def poll(self) -> float | None:
        """Whether every pod has ended; pods that were not admitted are made a second time."""
        for node in self.refused:
            self.asked[node] = None
            del self.names[node]
        self.start()
        self.pods = self._listed()
        self.refused = [pod.spec.node_name for pod in self.pods if _was_not_admitted(pod)]
        ended = sum(pod.status.phase in ENDED for pod in self.pods)
        missing = [node for node, count in self.asked.items() if count is None]
        if self.refused:
            return REPEAT_SECONDS
        asked = sum(bool(count) for count in self.asked.values())
        return None if ended >= asked and not missing else PAUSE_SECONDS

    def verdict(self) -> GpuTestResult:
        """What the pods listed."""
        return judged(self.asked, self.pods)

    def _listed(self) -> list[Any]:
        found = self.core.list_namespaced_pod(self.namespace, _request_timeout=TEST_TIMEOUT).items
        return [pod for pod in found if self.names.get(pod.spec.node_name) == pod.metadata.name]


def _was_not_admitted(pod: Any) -> bool:
    """Whether the kubelet let no container of it start: its GPUs were not there at that moment."""
    return pod.status.phase == "Failed" and str(pod.status.reason).startswith(NOT_ADMITTED)


def _free(core: Any, node: str) -> int | None:
    """How many whole GPUs no pod of the node has asked for; None where the kubelet offers none.

    After it started, a kubelet offers none until the device plugin has registered with it.
    """
    status = core.read_node(node, _request_timeout=TEST_TIMEOUT).status
    offered = whole_gpus(status.allocatable)
    if not offered:
        return None
    pods = core.list_pod_for_all_namespaces(
        field_selector=f"spec.nodeName={node}", _request_timeout=TEST_TIMEOUT
    ).items
    used = sum(gpus_asked(pod) for pod in pods if pod.status.phase not in ENDED)
    return max(0, offered - used)


def judged(asked: Mapping[str, int | None], pods: Sequence[Any]) -> GpuTestResult:
    """What the pods say: each must list exactly as many different GPUs as it asked for."""
    by_node = {pod.spec.node_name: pod for pod in pods}
    listed: dict[str, tuple[str, ...]] = {}
    faults = []
    for node, count in asked.items():
        pod = by_node.get(node)
        text = _message(pod) if pod is not None and count else ""
        lines = tuple(line for line in text.splitlines() if LISTED.match(line))
        seen = {match.group(1) for line in lines if (match := LISTED.match(line))}
        if count is None:
            faults.append((node, f"pods can request no {RESOURCE} on it"))
        elif count and pod is not None and pod.status.phase not in ENDED:
            faults.append((node, f"its test pod does not start: {_why(pod)}"))
        elif len(seen) != count:
            words = text.strip()[:200] or (_why(pod) if pod else "no pod was created")
            faults.append((node, f"a pod with {count} GPUs lists {len(seen)} of them: {words}"))
        else:
            listed[node] = lines
    return GpuTestResult(listed, tuple(faults))


def _message(pod: Any) -> str:
    states = [status.state.terminated for status in pod.status.container_statuses or []]
    return "".join(state.message or "" for state in states if state)


def _why(pod: Any) -> str:
    faults = pod_faults(pod)
    return faults[0].words if faults else str(pod.status.phase)


def lister(node: str, image: str, count: int) -> dict[str, Any]:
    """The pod that lists its GPUs; it goes past the scheduler, whose queue may be anybody's."""
    return {
        "metadata": {"generateName": "gpus-", "labels": {"proof": "gpus"}},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "list",
                    "image": image,
                    "command": ["/bin/sh", "-c", _LIST],
                    "resources": {"limits": {RESOURCE: str(count)}},
                }
            ],
        },
    }
