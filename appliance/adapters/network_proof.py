"""Prove the pod network with real pods: pull, pod to pod, service address, DNS.

A DaemonSet answers HTTP on every node; then one checker pod a node reaches every other node's pod,
the service's address, and resolves the service's name and whatever other names are asked for. What
each saw comes back as its termination message. The namespace is new for each look and is deleted at
its end.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from appliance.errors import ClusterError
from appliance.model.observation import PodView

if TYPE_CHECKING:
    from appliance.adapters.kubernetes import KubernetesApi

T = TypeVar("T")

PORT = 8080
TIMEOUT = (3, 20)
# How long a checker tries its targets, all at once, and may take for each name that is asked for.
TARGET_SECONDS = 60
NAME_SECONDS = 12
_CHECK = r"""
out=/dev/termination-log
# nc, because wget of a static busybox dies in glibc's name service, which a bare image lacks.
get() { printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 3 "$1" 8080 | grep -q '200 OK'; }
resolve() { timeout 6 nslookup "$1" >/dev/null 2>&1; }
now() { read -r up _ </proc/uptime; echo "${up%%.*}"; }
end=$(($(now) + PATIENCE))
# Until a deadline and not so many times: while a rule is not written yet, a target refuses at once.
try() {
  fault=$1; shift
  until "$@"; do
    [ "$(now)" -ge "$end" ] && { echo "$fault" >>$out; return; }
    sleep 1
  done
}
for target in $PEERS; do
  node=${target%%=*}; address=${target#*=}
  try "no answer from the pod on $node ($address)" get "$address" &
done
try "no answer from the service address $SERVICE" get "$SERVICE" &
try "the cluster's DNS does not resolve $NAME" resolve "$NAME" &
wait
for name in $NAMES; do
  n=0; found=
  while [ -z "$found" ] && [ $n -lt 2 ]; do
    n=$((n+1))
    found=$(timeout 6 nslookup "$name" 2>/dev/null | sed -n '/^Name:/,$s/^Address[^:]*: *//p')
  done
  echo "= $name" $found >>$out
done
exit 0
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
        body = _answerers(self.image)
        self.apps.create_namespaced_daemon_set(namespace, body, _request_timeout=TIMEOUT)
        addresses = _wait(self._answering, patience)
        if addresses is None:
            return self._not_started("answer")
        values = {
            "PEERS": " ".join(f"{name}={address}" for name, address in sorted(addresses.items())),
            "SERVICE": service.spec.cluster_ip,
            "NAME": f"proof.{namespace}.svc.cluster.local",
            "NAMES": " ".join(self.names),
            "PATIENCE": str(TARGET_SECONDS),
        }
        for node in self.nodes:
            pod = _checker(node, self.image, values)
            core.create_namespaced_pod(namespace, pod, _request_timeout=TIMEOUT)
        tries = TARGET_SECONDS + NAME_SECONDS * len(self.names)
        done = _wait(self._finished, patience + tries)
        return self._not_started("check") if done is None else self._said(done)

    def _answering(self) -> dict[str, str] | None:
        pods = _pods(self.core, self.namespace, "answer")
        there = {p.spec.node_name: p.status.pod_ip for p in pods if _is_ready(p)}
        return there if set(self.nodes) <= set(there) else None

    def _finished(self) -> list[Any] | None:
        pods = _pods(self.core, self.namespace, "check")
        done = [p for p in pods if p.status.phase in ("Succeeded", "Failed")]
        return done if len(done) >= len(self.nodes) else None

    def _not_started(self, part: str) -> PodView:
        pods = _pods(self.core, self.namespace, part)
        return PodView(self.nodes, tuple(_not_started(pods, self.nodes)))

    def _said(self, pods: Iterable[Any]) -> PodView:
        # Sorted, because targets are tried at the same time.
        lines = {
            pod.spec.node_name: sorted(
                line
                for status in pod.status.container_statuses
                for line in (status.state.terminated.message or "").splitlines()
            )
            for pod in pods
        }
        return read_messages(self.nodes, lines)


def read_messages(nodes: Sequence[str], lines: Mapping[str, Sequence[str]]) -> PodView:
    """What the checkers wrote, node by node: faults, and ``= name address...``."""
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
        time.sleep(0.3)
    return value


def _pods(core: Any, namespace: str, part: str) -> list[Any]:
    found = core.list_namespaced_pod(
        namespace, label_selector=f"proof={part}", _request_timeout=TIMEOUT
    )
    return list(found.items)


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


def _answerers(image: str) -> dict[str, Any]:
    labels = {"proof": "answer"}
    container = {
        "name": "answer",
        "image": image,
        "imagePullPolicy": "Always",
        "command": ["/bin/busybox", "sh", "-c", _SERVE],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
    }
    return {
        "metadata": {"name": "answer", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container]} | _POD,
            },
        },
    }


_SERVE = f"mkdir -p /www && echo here >/www/index.html && exec httpd -f -p {PORT} -h /www"
_POD: dict[str, Any] = {
    "terminationGracePeriodSeconds": 0,
    "enableServiceLinks": False,
    "automountServiceAccountToken": False,
    "tolerations": [{"operator": "Exists"}],
}


def _checker(node: str, image: str, values: Mapping[str, str]) -> dict[str, Any]:
    container = {
        "name": "check",
        "image": image,
        "command": ["/bin/busybox", "sh", "-c", _CHECK],
        "env": [{"name": key, "value": value} for key, value in values.items()],
    }
    return {
        "metadata": {"generateName": "check-", "labels": {"proof": "check"}},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container]} | _POD,
    }
