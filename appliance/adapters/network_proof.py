"""Prove the pod network with real pods: pull, pod to pod, service address, DNS.

A DaemonSet has one pod on every node, which answers HTTP and, asked by the API server, says what it
reaches itself: every other node's pod, the service's address, the service's name, and whatever
other names are asked for. That the API server reaches it is proved on the way; webhooks need it.
The namespace is new for each look and is deleted at its end.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from appliance.errors import ClusterError
from appliance.model.observation import PodView

if TYPE_CHECKING:
    from appliance.adapters.kubernetes import KubernetesApi

T = TypeVar("T")

PORT = 8080
TIMEOUT = (3, 20)
# How long targets are tried: while a rule is not written yet, they refuse at once.
TARGET_SECONDS = 60
POLL_SECONDS = 0.2
MANY = 20
# How many peers go into one question, which is a line of HTTP.
PEERS = 100
# A pod answers a question within 12 s; the API server itself tries 30 s to reach a pod.
ASK_TIMEOUT = (3, 15)
_HEAD = r"""#!/bin/busybox sh
printf 'Content-Type: text/plain\r\n\r\n'
words=$(echo "${PATH_INFO#/}" | tr , ' ')
"""
_CHECK = r"""
# A second each, again and again: what is not there yet may drop, and not refuse.
# nc, because wget of a static busybox dies in glibc's name service, which a bare image lacks.
get() { printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 1 "$1" 8080 | grep -q '200 OK'; }
resolve() { timeout 6 nslookup "$1" >/dev/null 2>&1; }
try() { fault=$1; shift; "$@" || echo "$fault"; }
for target in $words; do
  node=${target%%=*}; address=${target#*=}
  try "no answer from the pod on $node ($address)" get "$address" &
done
try "no answer from the service address $SERVICE" get "$SERVICE" &
try "the cluster's DNS does not resolve $NAME" resolve "$NAME" &
wait
"""
_NAMES = r"""
addresses() { timeout 6 nslookup "$1" 2>/dev/null | sed -n '/^Name:/,$s/^Address[^:]*: *//p'; }
ask() { found=$(addresses "$1"); echo "= $1" ${found:-$(addresses "$1")}; }
for name in $words; do ask "$name" & done
wait
"""


def prove_network(
    api: KubernetesApi, nodes: Sequence[str], image: str, *, patience_seconds: float = 120
) -> tuple[str, ...]:
    """Run the proof on ``nodes``; one sentence per fault, none when all is well.

    Args:
        api: the site's cluster.
        nodes: names of Node objects that must take part.
        image: ``NAME:PORT/busybox@sha256:…``; pulled anew by each node.
        patience_seconds: how long pods may take to start.

    Raises:
        ClusterError: the API refused what the proof needs.
    """
    return look_from_pods(api, nodes, image, patience_seconds=patience_seconds).faults


def look_from_pods(
    api: KubernetesApi,
    nodes: Sequence[str],
    image: str,
    *,
    names: Sequence[str] = (),
    patience_seconds: float = 120,
) -> PodView:
    """The same, and how pods on each node resolve ``names``.

    Raises:
        ClusterError: the API refused what the look needs.
    """
    from kubernetes.client import ApiException, AppsV1Api, CoreV1Api
    from urllib3.exceptions import HTTPError

    namespace = f"appliance-proof-{secrets.token_hex(3)}"
    with api.any_client() as client:
        core: Any = CoreV1Api(client)
        apps: Any = AppsV1Api(client)
        proof = _Proof(core, apps, namespace, tuple(nodes), image, tuple(names))
        try:
            core.create_namespace({"metadata": {"name": namespace}}, _request_timeout=TIMEOUT)
            try:
                return proof.carry_out(patience_seconds)
            finally:
                core.delete_namespace(namespace, _request_timeout=TIMEOUT)
        except (HTTPError, OSError) as error:
            raise ClusterError(
                f"the API went away during the network proof: {error.__class__.__name__}",
                hint="the same command goes on; what is left of it: "
                f"kubectl delete namespace {namespace}",
            ) from error
        except ApiException as error:
            raise ClusterError(
                f"the API refused a part of the network proof: {error.status} {error.reason}",
                hint=f"what is left of it goes with: kubectl delete namespace {namespace}",
            ) from error


@dataclass(frozen=True)
class _Proof:
    """One proof, in a namespace of its own."""

    core: Any
    apps: Any
    namespace: str
    nodes: tuple[str, ...]
    image: str
    names: tuple[str, ...]

    def carry_out(self, patience: float) -> PodView:
        core, namespace = self.core, self.namespace
        service = core.create_namespaced_service(namespace, _service(), _request_timeout=TIMEOUT)
        body = _answerers(
            self.image,
            {
                "CHECK": _HEAD + _CHECK,
                "NAMES": _HEAD + _NAMES,
                "SERVICE": service.spec.cluster_ip,
                "NAME": f"proof.{namespace}.svc.cluster.local",
            },
        )
        self.apps.create_namespaced_daemon_set(namespace, body, _request_timeout=TIMEOUT)
        pods = _wait(self._answering, patience)
        if pods is None:
            return PodView(self.nodes, tuple(_not_started(self._pods(), self.nodes)))
        lines = self._checked(pods)
        if self.names:
            # A pod that cannot be asked has said so above.
            found = self._ask({node: pods[node] for node in self.nodes}, "names", self.names)
            lines = {n: [*lines[n], *(x for x in found[n] if x[:2] == "= ")] for n in lines}
        return read_messages(self.nodes, lines)

    def _checked(self, pods: Mapping[str, Any]) -> dict[str, list[str]]:
        """Node -> what its pod does not reach, however often it tries until the deadline."""
        peers = [f"{node}={pod.status.pod_ip}" for node, pod in sorted(pods.items())]
        deadline = time.monotonic() + TARGET_SECONDS
        lines: dict[str, list[str]] = {}
        left = {node: pods[node] for node in self.nodes}
        while left:
            lines |= self._ask(left, "check", peers)
            left = {node: pod for node, pod in left.items() if lines[node]}
            if time.monotonic() >= deadline:
                break
            time.sleep(POLL_SECONDS)
        return lines

    def _ask(
        self, pods: Mapping[str, Any], script: str, words: Sequence[str]
    ) -> dict[str, list[str]]:
        """Node -> the lines of its pod's answer; all pods are asked at the same time."""
        parts = [words[at : at + PEERS] for at in range(0, len(words), PEERS)]

        def answer(pod: Any) -> list[str]:
            # Sorted, because targets are tried at the same time; the service is in every part.
            return sorted({line for part in parts for line in self._answer(pod, script, part)})

        with ThreadPoolExecutor(min(len(pods), MANY)) as pool:
            return dict(zip(pods, pool.map(answer, pods.values()), strict=True))

    def _answer(self, pod: Any, script: str, words: Sequence[str]) -> list[str]:
        from kubernetes.client import ApiException
        from urllib3.exceptions import ReadTimeoutError

        silent = f"the API server gets no answer from the pod there ({pod.status.pod_ip})"
        try:
            text = self.core.connect_get_namespaced_pod_proxy_with_path(
                f"{pod.metadata.name}:{PORT}",
                self.namespace,
                f"cgi-bin/{script}/{','.join(words)}",
                _request_timeout=ASK_TIMEOUT,
            )
        except ReadTimeoutError:
            return [silent]
        except ApiException as error:
            if error.status == 404 or error.status >= 500:
                return [f"{silent}: {error.status} {error.reason}"]
            raise
        return list(text.splitlines())

    def _answering(self) -> dict[str, Any] | None:
        there = {pod.spec.node_name: pod for pod in self._pods() if _is_ready(pod)}
        return there if set(self.nodes) <= set(there) else None

    def _pods(self) -> list[Any]:
        found = self.core.list_namespaced_pod(
            self.namespace, label_selector="proof=answer", _request_timeout=TIMEOUT
        )
        return list(found.items)


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
    return PodView(tuple(nodes), tuple(faults), names)


def _wait(probe: Callable[[], T | None], patience_seconds: float) -> T | None:
    deadline = time.monotonic() + patience_seconds
    while (value := probe()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return value


def _is_ready(pod: Any) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or [])


def _not_started(pods: Iterable[Any], nodes: Sequence[str]) -> list[str]:
    by_node = {pod.spec.node_name: pod for pod in pods}
    faults = []
    for node in nodes:
        pod = by_node.get(node)
        if pod is None:
            faults.append(f"{node}: no test pod was started there")
        elif not _is_ready(pod) and pod.status.phase != "Succeeded":
            states = [s.state.waiting for s in pod.status.container_statuses or []]
            reason = next(
                (f"{w.reason} {w.message or ''}".strip() for w in states if w), "no reason"
            )
            faults.append(f"{node}: its test pod does not start: {pod.status.phase}, {reason}")
    return faults


def _service() -> dict[str, Any]:
    return {
        "metadata": {"name": "proof"},
        "spec": {"selector": {"proof": "answer"}, "ports": [{"port": PORT, "targetPort": PORT}]},
    }


def _answerers(image: str, values: Mapping[str, str]) -> dict[str, Any]:
    labels = {"proof": "answer"}
    container = {
        "name": "answer",
        "image": image,
        "imagePullPolicy": "Always",
        "command": ["/bin/busybox", "sh", "-c", _SERVE],
        "env": [{"name": key, "value": value} for key, value in values.items()],
    }
    pod = {
        "terminationGracePeriodSeconds": 0,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return {
        "metadata": {"name": "answer", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


_SERVE = f"""
mkdir -p /www/cgi-bin && echo here >/www/index.html && cd /www/cgi-bin
printf '%s' "$CHECK" >check && printf '%s' "$NAMES" >names && chmod 755 check names
exec httpd -f -p {PORT} -h /www
"""
