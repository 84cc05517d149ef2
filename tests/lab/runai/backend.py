"""The backend of Run:ai in a lab, asked at its name over TLS, as a browser does."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.parse
import urllib.request
from typing import Any

from appliance.adapters.site.vault import KEPT, AnsibleVault
from tests.lab.conftest import LabSite
from tests.lab.runai.researchers import LOGIN

REALM = "/auth/realms/runai"
HELM = "helm --kubeconfig /etc/kubernetes/admin.conf"


def domain(lab: LabSite) -> str:
    return f"runai.{lab.name}.test"


def from_host(
    lab: LabSite, path: str, form: dict[str, str] | None = None, token: str = ""
) -> bytes:
    """Ask the backend at its name, over TLS; the host is told the address, it has no DNS."""
    text = lab.shell("cp1", "cat /etc/appliance/ca.crt")
    context = ssl.create_default_context(cadata=text)
    connection = http_to(lab.address("w1"), domain(lab), context)
    request = urllib.request.Request(
        f"https://{domain(lab)}{path}",
        data=urllib.parse.urlencode(form).encode() if form else None,
        headers={"Authorization": f"Bearer {token}"} if token else {},
    )
    with connection.open(request, timeout=20) as answer:
        content: bytes = answer.read()
        return content


def http_to(address: str, name: str, context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    class Connection(http.client.HTTPSConnection):
        def connect(self) -> None:
            raw = socket.create_connection((address, 443), 20)
            self.sock = context.wrap_socket(raw, server_hostname=name)

    class Handler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(Connection, req)

    return urllib.request.build_opener(urllib.request.ProxyHandler({}), Handler(context=context))


def token(lab: LabSite) -> str:
    """Log in with the site's own password."""
    known = AnsibleVault(lab.directory / KEPT).read(lab.directory / "group_vars/all/vault.yml")
    form = {"grant_type": "password", "client_id": "runai", "username": LOGIN}
    form["password"] = known["vault_runai_admin_password"].strip()
    said = json.loads(from_host(lab, f"{REALM}/protocol/openid-connect/token", form))
    return str(said["access_token"])


def clusters(lab: LabSite) -> Any:
    return json.loads(from_host(lab, "/v1/k8s/clusters", token=token(lab)))


def projects(lab: LabSite) -> set[str]:
    (cluster,) = clusters(lab)
    path = f"/v1/k8s/clusters/{cluster['uuid']}/projects"
    return {one["name"] for one in json.loads(from_host(lab, path, token=token(lab)))}


def history(lab: LabSite) -> dict[str, str]:
    """Job -> how it ended, of all that the backend's database knows."""
    (cluster,) = clusters(lab)
    path = f"/v1/k8s/clusters/{cluster['uuid']}/jobs"
    return {one["name"]: one["phase"] for one in json.loads(from_host(lab, path, token=token(lab)))}


def make_project(lab: LabSite, name: str) -> None:
    (cluster,) = clusters(lab)
    context = ssl.create_default_context(cadata=lab.shell("cp1", "cat /etc/appliance/ca.crt"))
    request = urllib.request.Request(
        f"https://{domain(lab)}/v1/k8s/clusters/{cluster['uuid']}/projects",
        data=json.dumps({"name": name}).encode(),
        headers={"Authorization": f"Bearer {token(lab)}", "Content-Type": "application/json"},
    )
    http_to(lab.address("w1"), domain(lab), context).open(request, timeout=20).close()


def version(lab: LabSite, release: str, namespace: str) -> tuple[str, str]:
    listed = json.loads(lab.shell("cp1", f"{HELM} list -n {namespace} -o json"))
    (found,) = [one for one in listed if one["name"] == release]
    return found["app_version"], found["status"]


def versions(lab: LabSite) -> set[tuple[str, str]]:
    return {
        version(lab, "runai-backend", "runai-backend"),
        version(lab, "runai-cluster", "runai"),
    }
