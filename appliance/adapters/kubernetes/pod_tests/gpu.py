"""Test GPUs with real pods: each asks for what is free on its node and lists what it was given.

A node whose GPUs all work already needs no pod: the pods that use them show that they work. Where
GPUs are shared or divided by MIG, the pod has one container for each resource of the node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appliance.adapters.kubernetes.objects import devices_asked, devices_of, pod_faults
from appliance.adapters.kubernetes.pod_tests.engine import (
    TEST_TIMEOUT,
    PodTest,
    make_pod,
    own_namespace,
)
from appliance.model.components.gpu.offers import DeviceRequest, requests_for
from appliance.model.state.cluster.gpu_labels import WHOLE
from appliance.model.state.cluster.pods import ENDED
from appliance.model.state.observed import GpuTestResult

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection

LISTED = re.compile(r"^GPU \d+: .+ \(UUID: (GPU-[0-9a-f-]{36})\)$")
# MIG devices are listed below their GPU; drivers before 470 name them by GPU and instances.
LISTED_MIG = re.compile(
    r"^ +MIG \S+ +Device +\d+: \(UUID: (MIG-[0-9a-f-]{36}|MIG-GPU-[0-9a-f-]{36}/\d+/\d+)\)$"
)
# How a pod fails whose GPUs went away, or to others, after it was made.
NOT_ADMITTED = ("UnexpectedAdmissionError", "OutOf")
PAUSE_SECONDS = 0.3
REPEAT_SECONDS = 2.0
# Of a container's name.
MOST_LETTERS = 63
Requests = tuple[DeviceRequest, ...]
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
        asked: node -> what its pod asks for, a container each; None until the node offers some.
        names: node -> its pod.
        pods: as they were when they were last looked at.
        refused: nodes whose kubelet did not admit the pod then.
    """

    core: Any
    namespace: str
    image: str
    asked: dict[str, Requests | None]
    names: dict[str, str] = field(default_factory=dict)
    pods: list[Any] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def start(self) -> None:
        """A pod on each node that offers GPUs and has none yet."""
        for node in [node for node, requests in self.asked.items() if requests is None]:
            self.asked[node] = requests = _free(self.core, node)
            if requests:
                body = lister(node, self.image, requests)
                made = make_pod(self.core, self.namespace, body)
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
        missing = [node for node, requests in self.asked.items() if requests is None]
        if self.refused:
            return REPEAT_SECONDS
        asked = sum(bool(requests) for requests in self.asked.values())
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


def _free(core: Any, node: str) -> Requests | None:
    """What a test pod asks for on the node; None where the kubelet offers nothing.

    After it started, a kubelet offers nothing until the device plugin has registered with it.
    """
    found = core.read_node(node, _request_timeout=TEST_TIMEOUT)
    offered = Counter(devices_of(found.status.allocatable))
    if not +offered:
        return None
    pods = core.list_pod_for_all_namespaces(
        field_selector=f"spec.nodeName={node}", _request_timeout=TEST_TIMEOUT
    ).items
    for pod in pods:
        if pod.status.phase not in ENDED:
            offered.subtract(devices_asked(pod))
    return requests_for(found.metadata.labels or {}, offered)


def judged(asked: Mapping[str, Requests | None], pods: Sequence[Any]) -> GpuTestResult:
    """What the pods say: each container must list exactly as many devices as it asked for."""
    by_node = {pod.spec.node_name: pod for pod in pods}
    listed: dict[str, tuple[str, ...]] = {}
    faults = []
    for node, requests in asked.items():
        pod = by_node.get(node)
        if requests is None:
            faults.append((node, f"pods can request no {WHOLE} on it"))
        elif requests and pod is not None and pod.status.phase not in ENDED:
            faults.append((node, f"its test pod does not start: {_why(pod)}"))
        else:
            verdicts = [_judged(request, pod) for request in requests]
            faults += [(node, fault) for _, fault in verdicts if fault]
            if not any(fault for _, fault in verdicts):
                listed[node] = tuple(line for lines, _ in verdicts for line in lines)
    return GpuTestResult(listed, tuple(faults))


def _judged(request: DeviceRequest, pod: Any) -> tuple[tuple[str, ...], str]:
    """The lines of one container that list devices, and what is wrong with them."""
    text = _message(pod, request) if pod is not None else ""
    divided = [line for line in text.splitlines() if LISTED_MIG.match(line)]
    form = LISTED_MIG if divided else LISTED
    lines = tuple(divided or [line for line in text.splitlines() if LISTED.match(line)])
    seen = {match.group(1) for line in lines if (match := form.match(line))}
    if len(seen) == request.count:
        return tuple(line.strip() for line in lines), ""
    words = text.strip()[:200] or (_why(pod) if pod else "no pod was created")
    what = "GPUs" if request.resource == WHOLE else request.resource
    return (), f"a pod with {request.count} {what} lists {len(seen)} of them: {words}"


def _message(pod: Any, request: DeviceRequest) -> str:
    """What the container of a request wrote."""
    states = [
        status.state.terminated
        for status in pod.status.container_statuses or []
        if status.name == _name(request)
    ]
    return "".join(state.message or "" for state in states if state)


def _name(request: DeviceRequest) -> str:
    """A container's name, by its resource: ``gpu``, ``gpu-shared``, ``mig-1g-5gb``."""
    return request.resource.partition("/")[2].replace(".", "-")[:MOST_LETTERS]


def _why(pod: Any) -> str:
    faults = pod_faults(pod)
    return faults[0].words if faults else str(pod.status.phase)


def lister(node: str, image: str, requests: Requests) -> dict[str, Any]:
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
                    "name": _name(request),
                    "image": image,
                    "command": ["/bin/sh", "-c", _LIST],
                    "resources": {"limits": {request.resource: str(request.count)}},
                }
                for request in requests
            ],
        },
    }
