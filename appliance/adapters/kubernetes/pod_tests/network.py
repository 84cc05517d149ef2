"""Test the pod network with real pods: pull, pod to pod, service address, DNS.

A DaemonSet has one pod on every node, which answers HTTP and, asked by the API server, says what it
reaches itself: every other node's pod, the service's address, the service's name, and whatever
other names are asked for. That the API server reaches it is tested on the way; webhooks need it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from appliance.adapters.kubernetes.connection.client import get_untyped
from appliance.adapters.kubernetes.objects import is_ready, pod_faults
from appliance.adapters.kubernetes.pod_tests import network_pods as inside
from appliance.adapters.kubernetes.pod_tests.engine import (
    TEST_TIMEOUT,
    PodTest,
    own_namespace,
)
from appliance.model.state.observed import PodView

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection

# How long pods may take to start.
PATIENCE_SECONDS = 120
# How long targets are tried: while a rule is not written yet, they refuse, or drop.
TARGET_SECONDS = 60
POLL_SECONDS = 0.2
# How many pods are asked at the same time; the client keeps so many connections.
MANY = 10
# How many targets go into one question, which is a line of HTTP (busybox takes 8 KiB).
TARGETS = 50
# The API server itself tries half a minute to reach a pod.
ASK_TIMEOUT = (10, inside.ANSWER_SECONDS + 3)


def run_network_test(
    api: ApiConnection,
    nodes: Sequence[str],
    image: str,
    *,
    names: Sequence[str] = (),
    dns: bool = True,
) -> PodView:
    """Test the pod network of ``nodes``, and how pods on each of them resolve ``names``.

    Args:
        api: the site's cluster.
        nodes: names of Node objects that must take part.
        image: ``NAME:PORT/busybox@sha256:…``; each node pulls it again.
        names: that pods resolve beside the test's own.
        dns: whether pods resolve the test's own name; False where CoreDNS has no place yet.

    Raises:
        ClusterError: the API refused what the test needs.
    """
    from kubernetes.client import AppsV1Api, CoreV1Api

    with own_namespace(api, "network test") as (client, namespace):
        core, apps = CoreV1Api(client), AppsV1Api(client)
        test = NetworkTest(core, apps, namespace, tuple(nodes), image, tuple(names), dns=dns)
        return test.carry_out(PATIENCE_SECONDS)


class _Silent(Exception):
    """A pod did not answer the API server; the text says it."""


@dataclass
class NetworkTest(PodTest[PodView]):
    """A pod on each node says what it reaches.

    Attributes:
        stop: set when nobody waits for answers any more, as after Ctrl-C.
        address: of the service in front of the pods.
        ready: node -> its pod, of those that were ready at the last look.
        dns: whether pods resolve the test's own name.
    """

    core: Any
    apps: Any
    namespace: str
    nodes: tuple[str, ...]
    image: str
    names: tuple[str, ...]
    stop: threading.Event = field(default_factory=threading.Event)
    address: str = ""
    ready: dict[str, Any] = field(default_factory=dict)
    dns: bool = True

    def start(self) -> None:
        """A service, and a DaemonSet behind it."""
        core, namespace = self.core, self.namespace
        made = core.create_namespaced_service(
            namespace, inside.service(), _request_timeout=TEST_TIMEOUT
        )
        self.address = made.spec.cluster_ip
        body = inside.daemon_set(self.image)
        self.apps.create_namespaced_daemon_set(namespace, body, _request_timeout=TEST_TIMEOUT)

    def poll(self) -> float | None:
        """Whether a pod is ready on every node."""
        self.ready = _by_node(self._pods())
        return POLL_SECONDS if self._is_incomplete else None

    def verdict(self) -> PodView:
        """What the pods reach; where pods did not start, why not."""
        if self._is_incomplete:
            late = self._pods()
            if faults := _not_started(late, self.nodes):
                return PodView(self.nodes, tuple(faults))
            self.ready = _by_node(late)
        pods = self.ready
        targets = [
            f"service={self.address}",
            *((f"name=proof.{self.namespace}.svc.cluster.local",) if self.dns else ()),
            *(f"pod={node}={pod.status.pod_ip}" for node, pod in sorted(pods.items())),
        ]
        deadline = time.monotonic() + TARGET_SECONDS
        lines = self._each(pods, lambda pod: self._unreached(pod, targets, deadline))
        if self.names:
            found = self._each(pods, self._resolved)
            lines = {node: [*lines[node], *found[node]] for node in self.nodes}
        return read_messages(self.nodes, lines)

    @property
    def _is_incomplete(self) -> bool:
        return not set(self.nodes) <= set(self.ready)

    def _each(
        self, pods: Mapping[str, Any], ask: Callable[[Any], list[str]]
    ) -> dict[str, list[str]]:
        """Node -> what asking its pod brought; many are asked at the same time."""
        asked = [pods[node] for node in self.nodes]
        with ThreadPoolExecutor(MANY) as pool:
            try:
                return dict(zip(self.nodes, pool.map(ask, asked), strict=True))
            except BaseException:
                self.stop.set()
                raise

    def _unreached(self, pod: Any, targets: Sequence[str], deadline: float) -> list[str]:
        """What a pod does not reach, however often it tries until the deadline; twice at least."""
        left, tries = targets, 0
        while True:
            tries += 1
            enough = tries > 1
            try:
                left = self._ask(pod, "check", left)
                faults = [inside.sentence(word) for word in left]
            except _Silent as silent:
                faults, enough = [str(silent)], True
            if not faults or (enough and time.monotonic() >= deadline):
                return faults
            if self.stop.wait(min(1.0, POLL_SECONDS * tries)):
                return faults

    def _resolved(self, pod: Any) -> list[str]:
        try:
            return self._ask(pod, "names", self.names)
        except _Silent as silent:
            return [str(silent)]

    def _ask(self, pod: Any, script: str, words: Sequence[str]) -> list[str]:
        """The lines of a pod's answer, sorted: it tries its targets at the same time.

        Raises:
            _Silent: it did not answer, or not to the end.
        """
        found: list[str] = []
        for at in range(0, len(words), TARGETS):
            *lines, end = self._answer(pod, script, words[at : at + TARGETS]) or [""]
            if end != inside.END:
                raise _Silent(_silence(pod))
            found += lines
        return sorted(found)

    def _answer(self, pod: Any, script: str, words: Sequence[str]) -> list[str]:
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        # By its own path: how the typed request writes a path and reads a text differs with the
        # library's version.
        where = f"/api/v1/namespaces/{self.namespace}/pods/{pod.metadata.name}:{inside.PORT}/proxy"
        path = f"{where}/cgi-bin/{script}/{quote(','.join(words), safe=',=:')}"
        try:
            reply = get_untyped(self.core.api_client, path, _request_timeout=ASK_TIMEOUT)
        except (HTTPError, OSError) as error:
            # Of the pod or of the API itself: that one is met again when the namespace is deleted.
            raise _Silent(_silence(pod)) from error
        if reply.status == 200:
            return str(reply.data.decode(errors="replace")).splitlines()
        if reply.status == 404 or reply.status >= 500:
            raise _Silent(f"{_silence(pod)}: {reply.status} {reply.reason}")
        raise ApiException(status=reply.status, reason=reply.reason)

    def _pods(self) -> list[Any]:
        found = self.core.list_namespaced_pod(
            self.namespace, label_selector="proof=answer", _request_timeout=TEST_TIMEOUT
        )
        return list(found.items)


def _silence(pod: Any) -> str:
    return f"the API server gets no answer from its test pod ({pod.status.pod_ip})"


def read_messages(nodes: Sequence[str], lines: Mapping[str, Sequence[str]]) -> PodView:
    """What the pods said, node by node: faults, and ``= name address...``."""
    names: dict[str, dict[str, tuple[str, ...]]] = {}
    faults = []
    for node, said in lines.items():
        for line in said:
            if line.startswith("= "):
                name, *found = line[2:].split()
                names.setdefault(node, {})[name] = tuple(found)
            else:
                faults.append(f"{node}: {line}")
    # A pod that was silent twice says so once.
    return PodView(tuple(nodes), tuple(dict.fromkeys(faults)), names)


def _by_node(pods: Iterable[Any]) -> dict[str, Any]:
    """Node -> its pod, of those that are ready."""
    return {pod.spec.node_name: pod for pod in pods if is_ready(pod)}


def _not_started(pods: Iterable[Any], nodes: Sequence[str]) -> list[str]:
    by_node = {pod.spec.node_name: pod for pod in pods}
    faults = []
    for node in nodes:
        pod = by_node.get(node)
        if pod is None:
            faults.append(f"{node}: no test pod was started on it")
        elif not is_ready(pod):
            reason = next((fault.words for fault in pod_faults(pod)), "no reason")
            faults.append(f"{node}: its test pod does not start: {pod.status.phase}, {reason}")
    return faults
