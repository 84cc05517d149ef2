"""Prove GPUs with real pods: each asks for what is free on its node and lists what it was given.

The namespace is new for each proof and is deleted at its end. A node whose GPUs all work already is
proved by the pods that use them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appliance.adapters.proof_namespace import TIMEOUT, proof_namespace
from appliance.model.gpu import RESOURCE
from appliance.model.observation import GpuProof

if TYPE_CHECKING:
    from appliance.adapters.kubernetes import KubernetesApi

LISTED = re.compile(r"^GPU \d+: .+ \(UUID: (GPU-[0-9a-f-]{36})\)$")
ENDED = ("Succeeded", "Failed")
# How a pod fails whose GPUs went away, or to others, after it was made.
NOT_ADMITTED = ("UnexpectedAdmissionError", "OutOf")
PAUSE_SECONDS = 0.3
ANEW_SECONDS = 2.0
_LIST = "nvidia-smi -L >/dev/termination-log 2>&1"


def prove_gpus(
    api: KubernetesApi,
    nodes: Sequence[str],
    image: str,
    meanwhile: Callable[[], None],
    *,
    patience_seconds: float = 180,
) -> GpuProof:
    """Run the proof on ``nodes``.

    Args:
        api: the site's cluster.
        nodes: names of Node objects that offer GPUs.
        image: ``NAME:PORT/IMAGE@sha256:…`` with a shell.
        meanwhile: is called once, when the pods have been asked for.
        patience_seconds: how long nodes may take to offer GPUs, and pods to end.

    Raises:
        ClusterError: the API refused what the proof needs.
    """
    from kubernetes.client import CoreV1Api

    with proof_namespace(api, "GPU proof") as (client, namespace):
        proof = _Proof(CoreV1Api(client), namespace, image, dict.fromkeys(nodes))
        proof.make_pods()
        meanwhile()
        return proof.carry_out(patience_seconds)


@dataclass
class _Proof:
    """One proof, in a namespace of its own.

    Attributes:
        asked: node -> how many GPUs its pod asks for; None until the node offers some.
        names: node -> its pod.
    """

    core: Any
    namespace: str
    image: str
    asked: dict[str, int | None]
    names: dict[str, str] = field(default_factory=dict)

    def make_pods(self) -> None:
        """A pod on each node that offers GPUs and has none yet."""
        for node in [node for node, count in self.asked.items() if count is None]:
            self.asked[node] = count = _free(self.core, node)
            if count:
                body = lister(node, self.image, count)
                made = self.core.create_namespaced_pod(
                    self.namespace, body, _request_timeout=TIMEOUT
                )
                self.names[node] = made.metadata.name

    def carry_out(self, patience: float) -> GpuProof:
        """Wait until every pod has ended; pods that were not let in are made anew."""
        deadline = time.monotonic() + patience
        while True:
            self.make_pods()
            pods = self._pods()
            over = sum(pod.status.phase in ENDED for pod in pods)
            refused = [pod.spec.node_name for pod in pods if _was_not_admitted(pod)]
            open_nodes = refused or [n for n, count in self.asked.items() if count is None]
            wanted = sum(bool(count) for count in self.asked.values())
            if time.monotonic() >= deadline or (over >= wanted and not open_nodes):
                return judged(self.asked, pods)
            for node in refused:
                self.asked[node] = None
                del self.names[node]
            time.sleep(ANEW_SECONDS if refused else PAUSE_SECONDS)

    def _pods(self) -> list[Any]:
        found = self.core.list_namespaced_pod(self.namespace, _request_timeout=TIMEOUT).items
        return [pod for pod in found if self.names.get(pod.spec.node_name) == pod.metadata.name]


def _was_not_admitted(pod: Any) -> bool:
    """Whether the kubelet let no container of it start: its GPUs were not there at that moment."""
    return pod.status.phase == "Failed" and str(pod.status.reason).startswith(NOT_ADMITTED)


def _free(core: Any, node: str) -> int | None:
    """How many whole GPUs no pod of the node has asked for; None where the kubelet offers none.

    After it started, a kubelet offers none until the device plugin has registered with it.
    """
    status = core.read_node(node, _request_timeout=TIMEOUT).status
    offered = int((status.allocatable or {}).get(RESOURCE, 0))
    if not offered:
        return None
    pods = core.list_pod_for_all_namespaces(
        field_selector=f"spec.nodeName={node}", _request_timeout=TIMEOUT
    ).items
    used = sum(_asked(pod) for pod in pods if pod.status.phase not in ENDED)
    return max(0, offered - used)


def _asked(pod: Any) -> int:
    containers = pod.spec.containers
    limits = [(c.resources.limits or {}) if c.resources else {} for c in containers]
    return sum(int(limit.get(RESOURCE, 0)) for limit in limits)


def judged(asked: Mapping[str, int | None], pods: Sequence[Any]) -> GpuProof:
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
            faults.append((node, f"its kubelet offers no {RESOURCE} to pods"))
        elif count and pod is not None and pod.status.phase not in ENDED:
            faults.append((node, f"its test pod does not start: {_why(pod)}"))
        elif len(seen) != count:
            words = text.strip()[:200] or (_why(pod) if pod else "no pod was made")
            faults.append((node, f"a pod with {count} GPUs lists {len(seen)} of them: {words}"))
        else:
            listed[node] = lines
    return GpuProof(listed, tuple(faults))


def _message(pod: Any) -> str:
    states = [status.state.terminated for status in pod.status.container_statuses or []]
    return "".join(state.message or "" for state in states if state)


def _why(pod: Any) -> str:
    if pod.status.reason or pod.status.message:
        return f"{pod.status.reason or ''} {pod.status.message or ''}".strip()
    for status in pod.status.container_statuses or []:
        if status.state and status.state.waiting:
            waiting = status.state.waiting
            return f"{waiting.reason} {waiting.message or ''}".strip()
    return str(pod.status.phase)


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
