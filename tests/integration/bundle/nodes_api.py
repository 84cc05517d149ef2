"""An API of the tests with one node: as much as node-feature-discovery asks of a real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NODE = "/api/v1/nodes/w1"
GROUP = "nfd.k8s-sigs.io/v1alpha1"
_PREFIX = "/metadata/labels/"


@dataclass
class NodesApi:
    """What was written: the objects by name, and the labels of the node."""

    port: int = 0
    objects: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    labelled: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str) -> Any:
        """What a GET of this path gets; None where there is nothing."""
        last = path.rpartition("/")[2]
        if path == NODE:
            metadata = {"name": "w1", "labels": self.labels, "annotations": {}}
            return {"kind": "Node", "apiVersion": "v1", "metadata": metadata}
        lists = {
            "nodes": ("v1", "NodeList", [self.answer(NODE)] if last == "nodes" else []),
            "namespaces": ("v1", "NamespaceList", [{"metadata": {"name": "gpu-operator"}}]),
            "nodefeatures": (GROUP, "NodeFeatureList", list(self.objects.values())),
            "nodefeaturerules": (GROUP, "NodeFeatureRuleList", []),
            "nodefeaturegroups": (GROUP, "NodeFeatureGroupList", []),
        }
        if last in lists:
            version, kind, items = lists[last]
            metadata = {"resourceVersion": "1"}
            return {"apiVersion": version, "kind": kind, "metadata": metadata, "items": items}
        return self.objects.get(last)

    def kubeconfig(self, path: Path) -> None:
        """Write how to reach it."""
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1", "kind": "Config", "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "users": [{"name": "u", "user": {}}],
                }
            )
        )  # fmt: skip


class _Server(ThreadingHTTPServer):
    api: NodesApi


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *_words: object) -> None:
        """Say nothing."""

    def _send(self, code: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if "watch=" in query:
            # A watch that ends at once: the program lists again.
            self.send_response(200)
            self.end_headers()
        elif (found := self.server.api.answer(path)) is not None:
            self._send(200, found)
        else:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
            self._send(404, {**status, "reason": "NotFound", "code": 404})

    def do_POST(self) -> None:
        made = self._body()
        made["metadata"]["resourceVersion"] = "1"
        self.server.api.objects[made["metadata"]["name"]] = made
        self._send(201, made)

    def do_PATCH(self) -> None:
        for step in self._body():
            if step["path"].startswith(_PREFIX):
                name = step["path"].removeprefix(_PREFIX).replace("~1", "/")
                self.server.api.labels[name] = step["value"]
        self._send(200, self.server.api.answer(NODE))
        self.server.api.labelled.set()


@contextmanager
def nodes_api() -> Iterator[NodesApi]:
    """Serve it on a free port of this machine."""
    api = NodesApi()
    server = _Server(("127.0.0.1", 0), _Handler)
    server.api = api
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
