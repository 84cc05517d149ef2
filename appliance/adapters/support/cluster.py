"""Reads events, Helm's history and logs of unhealthy pods from the Kubernetes API.

Of Helm's secrets only metadata is asked for, of pods only their states: specs hold passwords.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.kubernetes.connection.client import NotReadable, call
from appliance.adapters.kubernetes.objects import pod_of
from appliance.adapters.kubernetes.releases import read_history
from appliance.errors import ApplianceError
from appliance.model.support.items import Found, Unanswered
from appliance.model.support.requests import NAMESPACES, POD_LINES

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.api import KubernetesApi

CLUSTER: Final = "cluster"
MOST_EVENTS: Final = 3_000
MOST_PODS: Final = 60
MOST_LOG_BYTES: Final = 2_000_000


def ask_cluster(
    api: KubernetesApi, since_seconds: int, seconds: float
) -> Iterator[Found | Unanswered]:
    """Yield what the API tells, each part on its own: one that fails takes no other along.

    Args:
        api: of the site.
        since_seconds: how old lines of logs may be.
        seconds: for all of it.
    """
    deadline = time.monotonic() + seconds
    try:
        with api.any_client() as client:
            yield from _part("events", lambda: _events(client))
            yield from _part("Helm history", lambda: _helm(client))
            pods, answers = _pods(client)
            yield answers
            yield from _logs(client, pods, since_seconds, deadline)
    except (ApplianceError, NotReadable) as error:
        yield Unanswered(CLUSTER, "what the Kubernetes API tells", str(error))


def _part(what: str, ask: Any) -> Iterator[Found | Unanswered]:
    try:
        yield ask()
    except NotReadable as error:
        yield Unanswered(CLUSTER, what, str(error))


def _events(client: Any) -> Found:
    from kubernetes.client import CoreV1Api

    listed = call(CoreV1Api(client).list_event_for_all_namespaces, limit=MOST_EVENTS).items
    rows = sorted(
        (_moment(event), event.type or "", _object(event), event.reason or "", _words(event))
        for event in listed
    )
    lines = ["\t".join(row) for row in rows]
    return Found("cluster/events.txt", "\n".join([*lines, ""]))


def _moment(event: Any) -> str:
    moment = event.last_timestamp or event.event_time or event.first_timestamp
    return moment.isoformat() if moment else ""


def _object(event: Any) -> str:
    about = event.involved_object
    return "/".join(part for part in (about.namespace, about.kind, about.name) if part)


def _words(event: Any) -> str:
    count = f" (x{event.count})" if (event.count or 0) > 1 else ""
    return " ".join(str(event.message or "").split()) + count


def _helm(client: Any) -> Found:
    history = [dict(one) for one in read_history(client, call)]
    return Found("cluster/helm.json", json.dumps(history, indent=1))


def _pods(client: Any) -> tuple[list[Any], Found]:
    """The pods whose logs are read, and a line for each pod."""
    from kubernetes.client import CoreV1Api

    listed = call(CoreV1Api(client).list_pod_for_all_namespaces).items
    lines, unhealthy = [], []
    for item in listed:
        pod = pod_of(item)
        restarts = sum(one.restart_count or 0 for one in item.status.container_statuses or ())
        faulty = not pod.ready and item.status.phase != "Succeeded"
        state = "ready" if pod.ready else item.status.phase or "?"
        lines.append(
            f"{pod.namespace}\t{pod.name}\t{pod.node or '-'}\t{state}\t{restarts} restarts"
            f"\t{pod.reason if faulty else ''}"
        )
        if (faulty or restarts) and pod.namespace in NAMESPACES:
            unhealthy.append((not faulty, pod.namespace, pod.name, item))
    chosen = [one[3] for one in sorted(unhealthy, key=lambda one: one[:3])[:MOST_PODS]]
    return chosen, Found("cluster/pods.txt", "\n".join([*sorted(lines), ""]))


def _logs(
    client: Any, pods: list[Any], since_seconds: int, deadline: float
) -> Iterator[Found | Unanswered]:
    for pod in pods:
        for status in (*(pod.status.init_container_statuses or ()), *_statuses(pod)):
            where = f"{pod.metadata.namespace}/{pod.metadata.name} {status.name}"
            if time.monotonic() > deadline:
                yield Unanswered(CLUSTER, f"logs of {where} and the rest", "the time was over")
                return
            for previous in (False, True) if status.restart_count else (False,):
                yield _log(client, pod, status.name, since_seconds, previous=previous)


def _statuses(pod: Any) -> tuple[Any, ...]:
    return tuple(pod.status.container_statuses or ())


def _log(
    client: Any, pod: Any, container: str, since_seconds: int, *, previous: bool
) -> Found | Unanswered:
    from kubernetes.client import CoreV1Api

    space, name = pod.metadata.namespace, pod.metadata.name
    which = "previous" if previous else "current"
    # The time of a container that ended is not asked for: it may have ended long ago.
    when: Mapping[str, int] = {} if previous else {"since_seconds": since_seconds}

    def read(_request_timeout: object) -> bytes:
        # Decoded here: of text the library makes "b'...'".
        answer = CoreV1Api(client).read_namespaced_pod_log(
            name,
            space,
            container=container,
            previous=previous,
            tail_lines=POD_LINES,
            limit_bytes=MOST_LOG_BYTES,
            timestamps=True,
            _preload_content=False,
            _request_timeout=_request_timeout,
            **when,
        )
        return bytes(answer.data)

    try:
        text = call(read).decode(errors="replace")
    except NotReadable as error:
        return Unanswered(CLUSTER, f"{which} log of {space}/{name} {container}", str(error))
    return Found(f"pods/{space}/{name}/{container}.{which}.log", text)
