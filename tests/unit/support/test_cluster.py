"""What the API tells of a cluster: events, pods, Helm's history, logs; never a spec or a value."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from appliance.adapters.support.cluster import ask_cluster
from appliance.errors import NodeUnreachable
from appliance.model.support.items import Found, Unanswered

Answers = dict[str, Any]


def pod(space: str, name: str, *, ready: bool, restarts: int = 0) -> dict[str, Any]:
    image = {"image": "x", "imageID": "y"}
    status = {"name": "main", "ready": ready, "restartCount": restarts, **image}
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
    return {
        "metadata": {"name": name, "namespace": space},
        "spec": {
            "nodeName": "w1",
            "containers": [{"name": "main", "env": [{"name": "PASSWORD", "value": "canary"}]}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{**status, **({} if ready else waiting)}],
        },
    }


EVENT = {
    "metadata": {"name": "e", "namespace": "kube-system"},
    "involvedObject": {"kind": "Pod", "name": "dns", "namespace": "kube-system"},
    "reason": "Failed",
    "message": "Failed to pull\n image",
    "type": "Warning",
    "count": 3,
    "lastTimestamp": "2026-11-26T10:00:00Z",
}
SECRET = {
    "metadata": {
        "namespace": "runai",
        "labels": {"name": "runai", "status": "deployed", "version": "2", "owner": "helm"},
    }
}
LOG = "/api/v1/namespaces/kube-system/pods/dns/log"


def usual() -> Answers:
    pods = [
        pod("kube-system", "dns", ready=False, restarts=2),
        pod("kube-system", "proxy", ready=True),
        pod("runai-team-a", "job", ready=False, restarts=9),
    ]
    return {
        "/api/v1/events": {"items": [EVENT]},
        "/api/v1/secrets": {"items": [SECRET]},
        "/api/v1/pods": {"items": pods},
        LOG: "one line\n",
    }


@contextmanager
def api(answers: Answers, asked: list[tuple[str, Mapping[str, list[str]]]]) -> Iterator[Any]:
    """An API that is a thread of this process; what is no text or JSON is a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked.append((parts.path, parse_qs(parts.query)))
            answer = answers.get(parts.path, 404)
            status = answer if isinstance(answer, int) else 200
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    @contextmanager
    def any_client() -> Iterator[Any]:
        from kubernetes.client import ApiClient, Configuration

        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{server.server_address[1]}"
        configuration.retries = False
        configuration.proxy = None
        with ApiClient(configuration) as client:
            yield client

    try:
        yield SimpleNamespace(any_client=any_client)
    finally:
        server.shutdown()
        server.server_close()


def told(answers: Answers, seconds: float = 30.0) -> tuple[dict[str, str], list[Unanswered], Any]:
    asked: list[tuple[str, Mapping[str, list[str]]]] = []
    with api(answers, asked) as found:
        every = list(ask_cluster(found, 3600, seconds))
    texts = {one.name: one.text for one in every if isinstance(one, Found)}
    return texts, [one for one in every if isinstance(one, Unanswered)], asked


def test_events_helm_and_pods_are_lists_without_specs() -> None:
    texts, silent, asked = told(usual())
    assert silent == []
    assert texts["cluster/events.txt"] == (
        "2026-11-26T10:00:00+00:00\tWarning\tkube-system/Pod/dns\tFailed\t"
        "Failed to pull image (x3)\n"
    )
    assert json.loads(texts["cluster/helm.json"])[0]["revision"] == "2"
    lines = texts["cluster/pods.txt"].splitlines()
    assert len(lines) == 3
    assert "CrashLoopBackOff" in lines[0]
    assert "canary" not in json.dumps(texts)
    assert dict(asked)["/api/v1/secrets"]["labelSelector"] == ["owner=helm"]


def test_logs_are_of_the_appliances_unhealthy_pods_now_and_before() -> None:
    texts, _, asked = told(usual())
    logs = [name for name in texts if name.startswith("pods/")]
    assert logs == [
        "pods/kube-system/dns/main.current.log",
        "pods/kube-system/dns/main.previous.log",
    ]
    assert texts[logs[0]] == "one line\n"
    words = [query for path, query in asked if path == LOG]
    assert words[0]["sinceSeconds"] == ["3600"]
    assert words[1]["previous"] == ["True"]
    assert not [path for path, _ in asked if "team-a" in path], "a researcher's log"


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/secrets", LOG])
def test_a_part_that_is_refused_takes_no_other_along(path: str) -> None:
    texts, silent, _ = told({**usual(), path: 403})
    assert "cluster/pods.txt" in texts
    assert silent
    assert all("403" in one.cause for one in silent)


def test_when_the_time_is_over_the_rest_is_named() -> None:
    texts, silent, _ = told(usual(), seconds=-1.0)
    assert "cluster/pods.txt" in texts
    assert silent == [
        Unanswered("cluster", "logs of kube-system/dns main and the rest", "the time was over")
    ]


def test_no_api_is_one_sentence() -> None:
    @contextmanager
    def none() -> Iterator[Any]:
        raise NodeUnreachable("no API server answers: cp1: refused")
        yield

    found = list(ask_cluster(SimpleNamespace(any_client=none), 3600, 30.0))  # type: ignore[arg-type]
    assert [one.cause for one in found if isinstance(one, Unanswered)] == [
        "no API server answers: cp1: refused"
    ]
