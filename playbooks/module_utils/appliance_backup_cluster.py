"""What the cluster itself gives to a backup: Run:ai's databases and values, objects, images.

Python 3.8, standard library. What must not be here: how a database is dumped (``runai_dump``), and
how parts are sent.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
import urllib.parse
from pathlib import Path

from ansible.module_utils import appliance_object_digest, appliance_registry
from ansible.module_utils import runai_dump as dumps
from ansible.module_utils.appliance_job import JobError, NodeJob
from ansible.module_utils.appliance_kubectl import KUBECONFIG, PROGRAM, Kubectl, KubectlError
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.runai_upgrade_record import UpgradeError

HELM = "/usr/local/bin/helm"
# Helm release -> its namespace.
RELEASES = {"runai-backend": "runai-backend", "runai-cluster": "runai"}
VERSIONS = "runai/releases.json"
CA, LOGIN = "/etc/appliance/ca.crt", "/etc/appliance/registry/login"
MANIFESTS = ",".join(
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
    )
)
MOST_REPOSITORIES, PAGE, SECONDS = 5000, 100, 3600
# pg_dump writes the rows of a table between such a line and a line with backslash and dot.
COPY = re.compile(rb"^COPY (.{1,400}) \(.*\) FROM stdin;$")
END = b"\\."


def kubectl_here():
    """Return kubectl of this node."""
    return Kubectl(functools.partial(run, seconds=90), KUBECONFIG, PROGRAM)


def tables_of(path):
    """Return table -> (number of its rows in a dump, digest of these rows in any order)."""
    rows, sums, table = {}, {}, None
    with Path(path).open("rb") as stream:
        for line in stream:
            text = line.rstrip(b"\n")
            if table is None:
                copied = COPY.match(text)
                if copied:
                    table = copied.group(1).decode("utf-8", "replace")
                    rows[table] = sums[table] = 0
            elif text == END:
                table = None
            else:
                rows[table] += 1
                sums[table] += int.from_bytes(hashlib.sha256(text).digest(), "big")
    return {table: (rows[table], "%064x" % (sums[table] % (1 << 256))) for table in rows}


def of_runai(found, _want, data):
    """Every database of the backend, its roles, Helm's values and the RunaiConfig."""
    kubectl = kubectl_here()
    try:
        if kubectl.get("namespace", "runai-backend") is None:
            found.lacks("runai", "there is no namespace runai-backend: Run:ai is not installed")
            return
        _values(found, kubectl)
        _versions(found)
        databases(found, data, NodeJob("backup-dump", run, python=sys.executable))
    except (JobError, KubectlError, UpgradeError) as error:
        found.lacks("runai", error)


def databases(found, data, job):
    """Every database of the server, and what the dump of each has: rows and digests.

    Raises:
        JobError, UpgradeError: the databases cannot be listed.
    """
    want = {"kubectl": PROGRAM, "kubeconfig": KUBECONFIG, "deadline_seconds": SECONDS}
    counts, files = {}, []
    for name in dumps.listed(want, job, data):
        path = data / dumps.file_of(name, "database")
        own = None if name == dumps.DATABASE else name
        try:
            dumps.take(want, job, path, own)
        except UpgradeError as error:
            found.lacks("runai/databases", error)
            continue
        part = "runai/databases/" + dumps.file_of(name, "database")[len("database-") :]
        files.append((part, path))
        # Of the dump itself: it is what the server had at one moment.
        tables = tables_of(path)
        counts[name] = {
            "part": part,
            "rows": {table: rows for table, (rows, _) in tables.items()},
            "digests": {table: digest for table, (_, digest) in tables.items()},
        }
    told = dumps.take_globals(want, job, data / "globals.sql")
    if "error" in told:
        found.lacks("runai/globals.sql", told["error"])
    else:
        files.append(("runai/globals.sql", data / "globals.sql"))
    # First, so that whoever reads the dumps knows what should be in them.
    found.text("runai/counts.json", json.dumps({"databases": counts}, sort_keys=True).encode())
    for part, path in files:
        found.file(part, path)


def _values(found, kubectl):
    for name, namespace in sorted(RELEASES.items()):
        argv = [HELM, "get", "values", name, "--namespace=" + namespace, "--output=yaml"]
        rc, out, err = run([*argv, "--kubeconfig=" + KUBECONFIG], seconds=60)
        if rc == 0:
            found.text("runai/values/%s.yml" % name, out.encode())
        else:
            found.lacks("runai/values/%s.yml" % name, err.strip() or "helm gives no values")
    config = kubectl.get("--namespace=runai", "runaiconfigs.run.ai", "runai")
    if config is None:
        found.lacks("runai/runaiconfig.yml", "there is no RunaiConfig")
    else:
        text = json.dumps({"spec": config.get("spec") or {}}, indent=1, sort_keys=True)
        found.text("runai/runaiconfig.yml", text.encode())


def versions():
    """Return Helm release -> its version of Run:ai and its state, as helm says.

    Raises:
        UpgradeError: helm does not say it.
    """
    found = {}
    for name, namespace in sorted(RELEASES.items()):
        argv = [HELM, "list", "--all", "--namespace=" + namespace, "--output=json"]
        rc, out, err = run([*argv, "--kubeconfig=" + KUBECONFIG], seconds=60)
        try:
            listed = json.loads(out) if rc == 0 else None
        except ValueError:
            listed = None
        if not isinstance(listed, list):
            raise UpgradeError("helm list: %s" % (err.strip() or "no answer"))
        for one in listed:
            if one.get("name") == name:
                told = {"version": one.get("app_version"), "status": one.get("status")}
                found[name] = {key: str(value or "") for key, value in told.items()}
    return found


def _versions(found):
    try:
        told = versions()
    except UpgradeError as error:
        found.lacks(VERSIONS, error)
        return
    found.text(VERSIONS, json.dumps(told, indent=1, sort_keys=True).encode())


def of_objects(found, _want, _data):
    """Digests over all objects, to compare a restored cluster with."""
    try:
        told = appliance_object_digest.digests(kubectl_here())
    except KubectlError as error:
        found.lacks("objects", error)
        return
    found.text("objects/digest.json", json.dumps(told, indent=1, sort_keys=True).encode())


def of_registry(found, want, _data):
    """Names and digests of the images in the registry; not the images."""
    address = want["registry"]
    try:
        login = appliance_registry.login_in(LOGIN, address)
        client = appliance_registry.Client(address, CA, login)
        images = dict(images_of(client))
    except (appliance_registry.RegistryError, OSError) as error:
        found.lacks("registry", error)
        return
    told = {"registry": address, "images": images}
    found.text("registry/inventory.json", json.dumps(told, indent=1, sort_keys=True).encode())


def _repositories(client):
    """Yield the names of all repositories, page by page: a registry limits what it lists."""
    last = ""
    for _ in range(MOST_REPOSITORIES // PAGE):
        more = "&last=" + urllib.parse.quote(last, safe="") if last else ""
        found = _asked(client, "/v2/_catalog?n=%d%s" % (PAGE, more)).get("repositories") or []
        for name in found:
            yield name
        if len(found) < PAGE or found[-1] == last:
            return
        last = found[-1]
    raise appliance_registry.RegistryError("the registry lists more repositories than any of ours")


def images_of(client):
    """Yield name:tag and digest of every image of a registry; empty where it has none."""
    for name in _repositories(client):
        for tag in _asked(client, "/v2/%s/tags/list" % name).get("tags") or ():
            answer = client.ask("HEAD", "/v2/%s/manifests/%s" % (name, tag), MANIFESTS)
            yield "%s:%s" % (name, tag), answer.headers.get("Docker-Content-Digest") or ""


def _asked(client, path):
    answer = client.ask("GET", path)
    if answer.status != 200:
        raise appliance_registry.RegistryError(
            "the registry answers %s with %d" % (path, answer.status)
        )
    return json.loads(answer.body)
