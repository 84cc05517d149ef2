"""STANDIN of the cluster part's agent: tells the backend that the cluster lives, and of its jobs.

Reaches the backend over TLS by its name. It trusts what is in ``/etc/ssl/certs``, as a program in
Go does, and reads no secret of its own for that: charts of 2.4 to 2.12 have none. Makes a namespace
for each project, and reports the jobs in it; those of other namespaces are none of Run:ai's.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BACKEND = os.environ.get("BACKEND_URL", "")
CLUSTER = os.environ.get("CLUSTER_UUID", "")
VERSION = os.environ.get("VERSION", "0.0.0")
PUBLIC = os.environ.get("PUBLIC_CONFIGMAP", "") == "true"
PASSWORD = Path(os.environ.get("PASSWORD_FILE", "/etc/runai/password"))
AUTHORITIES = Path(os.environ.get("CA_FOLDER", "/etc/ssl/certs"))
MARK = Path(os.environ.get("MARK_FILE", "/tmp/connected"))  # noqa: S108 - in an image
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "https://kubernetes.default.svc"
PERIOD_SECONDS = float(os.environ.get("PERIOD_SECONDS", "5"))
CONDITIONS = ("DependenciesFulfilled", "Deployed", "Available", "Reconciled")


def trusted(authorities: Path) -> ssl.SSLContext:
    """A context that trusts a file, or every file of a folder, as crypto/x509 of Go reads it."""
    context = ssl.create_default_context()
    files = sorted(authorities.iterdir()) if authorities.is_dir() else [authorities]
    for file in files:
        if file.is_file():
            with contextlib.suppress(ssl.SSLError):
                context.load_verify_locations(file)
    return context


def ask(url: str, token: str, authorities: Path, body: Any = None, method: str = "") -> Any:
    """Send a request with a bearer token; the answer's document."""
    context = trusted(authorities)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method or ("POST" if data else "GET"))
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header(
        "Content-Type", "application/merge-patch+json" if method == "PATCH" else "application/json"
    )
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return json.loads(answer.read() or b"{}")


def kubernetes(path: str, body: Any = None, method: str = "") -> Any:
    """Ask the API of this cluster."""
    token = (ACCOUNT / "token").read_text()
    return ask(API + path, token, ACCOUNT / "ca.crt", body, method)


def made(path: str, name: str, body: Any) -> None:
    """Make an object that does not exist yet."""
    try:
        kubernetes(f"{path}/{name}")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        kubernetes(path, body)


def projects(password: str) -> list[str]:
    """A namespace for each project; the names of the projects."""
    listed = ask(f"{BACKEND}/v1/k8s/clusters/{CLUSTER}/projects", password, AUTHORITIES)
    for project in listed:
        name = f"runai-{project['name']}"
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"runai/queue": project["name"]}},
        }
        made("/api/v1/namespaces", name, body)
    return [str(project["name"]) for project in listed]


def jobs(password: str, names: list[str]) -> None:
    """Report the jobs of projects that are in the cluster now."""
    found = [
        _reported(project, job)
        for project in names
        for job in kubernetes(f"/apis/batch/v1/namespaces/runai-{project}/jobs").get("items", [])
    ]
    if found:
        ask(f"{BACKEND}/v1/k8s/clusters/{CLUSTER}/jobs", password, AUTHORITIES, found)


def _reported(project: str, job: dict[str, Any]) -> dict[str, str]:
    meta, listed = job["metadata"], (job.get("status") or {}).get("conditions") or []
    ended = [one["type"] for one in listed if one.get("status") == "True"]
    phases = {"Complete": "Succeeded", "Failed": "Failed"}
    phase = next((phases[one] for one in ended if one in phases), "Running")
    return {"uid": meta["uid"], "name": meta["name"], "project": project, "phase": phase}


def public(ok: bool) -> None:
    """What the documents of 2.9 and later say to look at."""
    conditions = [{"type": kind, "status": "True" if ok else "False"} for kind in CONDITIONS]
    data = {"cluster-version": VERSION, "conditions": json.dumps(conditions)}
    path = "/api/v1/namespaces/runai/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "runai-public"}}
    made(path, "runai-public", {**body, "data": data})
    kubernetes(f"{path}/runai-public", {"data": data}, method="PATCH")


def once() -> None:
    """One sign of life."""
    password = PASSWORD.read_text().strip()
    ask(f"{BACKEND}/v1/k8s/clusters/{CLUSTER}/status", password, AUTHORITIES, {"version": VERSION})
    jobs(password, projects(password))
    if PUBLIC:
        public(ok=True)


def main() -> None:
    """Again and again; ready means that the last one arrived."""
    said = ""
    while True:
        try:
            once()
            MARK.touch()
            now = f"connected to {BACKEND}"
        except (OSError, ValueError, KeyError) as error:
            MARK.unlink(missing_ok=True)
            now = f"not connected to {BACKEND}: {getattr(error, 'reason', None) or error}"
        if now != said:
            said = now
            sys.stderr.write(f"STANDIN agent: {now}\n")
        time.sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    main()
