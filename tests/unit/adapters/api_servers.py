"""API servers that are threads of this process: TLS, client certificates, and a few answers."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.kubernetes.api import KubernetesApi
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.model.site.settings import Node
from tests import samples
from tests.unit.modules.certificates import self_signed

VERSION = {
    "major": "1",
    "minor": "30",
    "gitVersion": "v1.30.0",
    "gitCommit": "7c48c2bd72b9bf5c44d21d7338cc7bea77d0ad2a",
    "gitTreeState": "clean",
    "buildDate": "2024-04-17T17:27:03Z",
    "goVersion": "go1.22.2",
    "compiler": "gc",
    "platform": "linux/amd64",
}


class KubeconfigNodes(SshNodes):
    """Nodes that have an admin.conf each, and nothing else.

    Attributes:
        kubeconfigs: by the node's name.
        ports: where its API server listens on this machine.
        asked: whose admin.conf was read, in order.
    """

    def __init__(self, kubeconfigs: Mapping[str, str], ports: Mapping[str, int]) -> None:
        self.kubeconfigs = kubeconfigs
        self.ports = ports
        self.asked: list[str] = []

    def read_as_root(
        self, node: Node, path: str, *, most_bytes: int | None = None, timeout: float = 60
    ) -> Answer:
        assert (path, most_bytes, timeout) == ("/etc/kubernetes/admin.conf", None, 10)
        self.asked.append(node.name)
        return Answer(0, self.kubeconfigs[node.name], "")

    @contextmanager
    def tunnel(self, node: Node, host: str, port: int) -> Iterator[int]:
        assert (host, port) == (str(node.address.ip), 6443)
        yield self.ports.get(node.name, 1)


def api_of(kubeconfigs: Mapping[str, str], ports: Mapping[str, int]) -> KubernetesApi:
    """The API of a site with as many masters as there are kubeconfigs."""
    site = samples.site(masters=len(kubeconfigs))
    return KubernetesApi(site, KubeconfigNodes(kubeconfigs, ports))


def kubeconfig_of(folder: Path) -> str:
    """An admin.conf as kubeadm writes it; its key and certificate are made in ``folder``."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    self_signed(key, certificate, "kubernetes")
    one, secret = (b64encode(path.read_bytes()).decode() for path in (certificate, key))
    name, context = "kubernetes-admin", "kubernetes-admin@kubernetes"
    cluster = {"certificate-authority-data": one, "server": "https://10.0.0.10:6443"}
    user = {"client-certificate-data": one, "client-key-data": secret}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "clusters": [{"cluster": cluster, "name": "kubernetes"}],
            "contexts": [{"context": {"cluster": "kubernetes", "user": name}, "name": context}],
            "current-context": context,
            "kind": "Config",
            "preferences": {},
            "users": [{"name": name, "user": user}],
        }
    )


class ApiServer(ThreadingHTTPServer):
    """Answers each path with its status; speaks to none without the right certificate.

    It ends each connection after one answer, so a client makes a new one for each question.

    Args:
        folder: where :func:`kubeconfig_of` made a key and a certificate.
        statuses: by path; what is not here is 404.
    """

    daemon_threads = True

    def __init__(self, folder: Path, statuses: Mapping[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = statuses
        # What a path answers with, other than the version; and what was written to which.
        self.bodies: dict[str, bytes] = {}
        self.written: dict[str, Any] = {}
        self.asked: list[str] = []
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "certificate.pem")
        )
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        body = self.server.bodies.get(self.path, json.dumps(VERSION).encode())
        self.send_response(self.server.statuses.get(self.path, 404))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PATCH(self) -> None:
        size = int(self.headers["Content-Length"])
        self.server.written[self.path] = json.loads(self.rfile.read(size))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(folder: Path, statuses: Mapping[str, int]) -> Iterator[ApiServer]:
    """An API server, for as long as the block lasts."""
    with ApiServer(folder, statuses) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
