#!/usr/bin/python
"""Ansible module: log in to the backend, create the cluster there, and fetch its values."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: runai_cluster_values
short_description: Create a cluster in the backend and fetch its values file
description:
  - Proves that a person can log in to the realm C(runai), creates the cluster once, and writes its
    values to a file that only root can read.
  - Which cluster is ours is kept in the ConfigMap C(appliance-cluster) of the backend's namespace,
    so that another run, and another control-plane node, ask for the same one again. That one is
    about to be made is written there first, so that one whose answer was lost is known for ours.
  - With C(state=connected) it only asks what the backend says of that cluster, until it no longer
    says that the cluster is away. A backend that tells no state, or one in words of its own, is
    believed.
options:
  domain: {description: The backend's name, type: str, required: true}
  authority: {description: The CA (PEM file) that vouches for it, type: path, required: true}
  username: {description: Who logs in, type: str, required: true}
  password_path: {description: A file that holds the password alone, type: path, required: true}
  cluster: {description: What the backend calls the cluster, type: str, required: true}
  path: {description: Where the values are written, type: path, required: true}
  state:
    description: Whether values are fetched, or the cluster's connection is asked for.
    choices: [values, connected]
    default: values
    type: str
  timeout_seconds:
    description: How long the backend may take to answer as it should.
    type: int
    default: 120
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds:
    description: How long an API server that is not ready is waited for.
    type: int
    default: 60
notes:
  - "The calls are those of the guide's time: the realm's token endpoint with the password grant,
    C(POST /v1/k8s/clusters), C(GET /v1/k8s/clusters) (the vendor's page of the administrator's API)
    and C(GET /v1/k8s/clusters/UUID/installfile?cloud=op)."
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Fetch the values of the cluster
  runai_cluster_values:
    domain: runai.rack.example
    authority: /etc/appliance/ca.crt
    username: test@run.ai
    password_path: /run/appliance/runai-password
    cluster: rack
    path: /etc/appliance/runai/runai-rack.yaml
"""

RETURN = r"""
uuid: {description: The backend's name of the cluster, type: str, returned: success}
created: {description: Whether it was created now, type: bool, returned: success}
connection: {description: What the backend says of it, type: str, returned: state is connected}
"""

NAMESPACE = "runai-backend"
CONFIG_MAP = "appliance-cluster"
SECONDS = 20
WORDS = 200
AWAY = ("waiting", "disconnected", "not connected")


class BackendError(Exception):
    """The backend did not answer, or not as it should; ``final`` when waiting does not help."""

    def __init__(self, message, final=False):
        super().__init__(message)
        self.final = final


class Backend:
    """The backend's HTTP interface, at its name and over TLS.

    Args:
        domain: its name; the certificate must be for it.
        context: an ssl context that trusts the authority, or None for the system's.
    """

    def __init__(self, domain, context=None):
        self._url = "https://%s" % domain
        self._context = context
        self._token = None

    def log_in(self, username, password):
        """Get a token of the realm.

        Raises:
            BackendError: no answer, or the login is refused.
        """
        form = {
            "grant_type": "password",
            "client_id": "runai",
            "scope": "openid",
            "response_type": "id_token",
            "username": username,
            "password": password,
        }
        path = "/auth/realms/runai/protocol/openid-connect/token"
        status, body = self._ask(path, urllib.parse.urlencode(form).encode())
        if status in (400, 401, 403):
            raise BackendError(
                "%s refuses the login of %s: its password is vault_runai_admin_password in "
                "group_vars/all/vault.yml (ansible-vault edit), the user runai.admin_user in "
                "site.yml" % (self._url, username),
                final=True,
            )
        self._require(status, path)
        document = _document(body)
        self._token = document.get("id_token") or document.get("access_token")
        if not self._token:
            raise BackendError("%s%s answers without a token" % (self._url, path))

    def create(self, name):
        """Create a cluster and return its uuid; None when there is one of that name already.

        Raises:
            BackendError: it cannot be created; ``final`` where the backend has no such call.
        """
        path = "/v1/k8s/clusters"
        body = json.dumps({"name": name, "description": name}).encode()
        status, answer = self._ask(path, body, "application/json")
        if status in (404, 405):
            raise BackendError(
                "%s has no call that creates a cluster. In its web page make it by hand: "
                "Clusters, New Cluster, named %s; download runai-%s.yaml, and give its path as "
                "runai.cluster_values_file in site.yml" % (self._url, name, name),
                final=True,
            )
        if status == 409:
            return None
        self._require(status, path)
        uuid = _document(answer).get("uuid")
        if not uuid:
            raise BackendError("%s%s answers without a uuid" % (self._url, path))
        return uuid

    def listed(self):
        """Return the clusters that the backend knows.

        Raises:
            BackendError: the backend does not list its clusters.
        """
        path = "/v1/k8s/clusters"
        status, answer = self._ask(path)
        self._require(status, path)
        try:
            listed = json.loads(answer)
        except ValueError:
            listed = None
        if not isinstance(listed, list):
            raise BackendError("%s%s answers without a list" % (self._url, path))
        return [one for one in listed if isinstance(one, dict)]

    def values(self, uuid):
        """Return the values file of a cluster, as bytes; None when the backend does not know it."""
        path = "/v1/k8s/clusters/%s/installfile?cloud=op" % urllib.parse.quote(uuid)
        status, body = self._ask(path)
        if status == 404:
            return None
        self._require(status, path)
        return body

    def _require(self, status, path):
        if status >= 300:
            raise BackendError("%s%s answers %d" % (self._url, path.partition("?")[0], status))

    def _ask(self, path, body=None, kind=None):
        request = urllib.request.Request(self._url + path, data=body)  # noqa: S310 - https
        if kind:
            request.add_header("Content-Type", kind)
        if self._token:
            request.add_header("Authorization", "Bearer " + self._token)
        # Past any proxy: the backend is inside.
        handlers = [urllib.request.ProxyHandler({})]
        if self._context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=self._context))
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=SECONDS) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except urllib.error.URLError as error:
            raise BackendError("%s does not answer: %s" % (self._url, error.reason)) from error
        except (OSError, http.client.HTTPException) as error:
            raise BackendError("%s does not answer: %s" % (self._url, error)) from error


def _document(body):
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Record:
    """Which cluster is ours, kept in a ConfigMap."""

    def __init__(self, kubectl):
        self._kubectl = kubectl

    def read(self):
        """Return {cluster, uuid}, or an empty dictionary; the uuid is empty until it is told."""
        found = self._kubectl.get("configmap", CONFIG_MAP, "--namespace=" + NAMESPACE)
        return (found or {}).get("data") or {}

    def write(self, cluster, uuid):
        """Keep the uuid of a cluster; one request, so that nothing is lost in between."""
        where = ["configmap", CONFIG_MAP, "--namespace=" + NAMESPACE]
        if self._kubectl.get(*where) is None:
            literals = ["--from-literal=cluster=" + cluster, "--from-literal=uuid=" + uuid]
            self._kubectl.call(["create", *where, *literals])
        else:
            patch = json.dumps({"data": {"cluster": cluster, "uuid": uuid}})
            self._kubectl.call(["patch", *where, "--type=merge", "--patch=" + patch])

    def forget(self):
        """Keep nothing."""
        namespace = "--namespace=" + NAMESPACE
        self._kubectl.call(["delete", "configmap", CONFIG_MAP, namespace, "--ignore-not-found"])


def fetch(backend, record, want):
    """Return (uuid, values, created); the cluster is created when nobody knows it.

    Raises:
        BackendError: see Backend.
    """
    backend.log_in(want["username"], want["password"])
    known = record.read()
    ours = known.get("cluster") == want["cluster"]
    if ours and known.get("uuid"):
        values = backend.values(known["uuid"])
        if values is not None:
            return known["uuid"], values, False
    begun = ours and not known.get("uuid")
    if not begun:
        record.write(want["cluster"], "")
    uuid = backend.create(want["cluster"])
    if uuid is None and begun:
        # An attempt of ours was cut off before its answer came.
        same = [one for one in backend.listed() if one.get("name") == want["cluster"]]
        uuid = same[0].get("uuid") if same else None
    if uuid is None:
        record.forget()
        raise BackendError(
            "the backend has a cluster %s already, which this site did not make: choose another "
            "runai.cluster_name, or remove that one in the backend's web page" % want["cluster"],
            final=True,
        )
    record.write(want["cluster"], uuid)
    values = backend.values(uuid)
    if values is None:
        raise BackendError("the backend has no values for the cluster it has just made")
    return uuid, values, True


def connection(backend, record, want):
    """Return (uuid, what the backend says of it).

    Raises:
        BackendError: it says that the cluster is away, or knows none.
    """
    backend.log_in(want["username"], want["password"])
    uuid = record.read().get("uuid")
    ours = [one for one in backend.listed() if uuid and one.get("uuid") == uuid]
    if not ours:
        raise BackendError(
            "the backend does not list the cluster %s, whose part runs here: look at its web page, "
            "Clusters" % want["cluster"]
        )
    said = str(ours[0].get("status") or "")
    if said.lower().replace("_", " ").startswith(AWAY):
        raise BackendError(
            "the pods of the cluster %s are ready, and the backend says of it: %s. See why: "
            "kubectl -n runai logs deployment/runai-agent" % (want["cluster"], said)
        )
    return uuid, said


def insist(attempt, seconds, clock=time):
    """Repeat until it succeeds, for at most so many seconds; a final error is not repeated."""
    until = clock.monotonic() + seconds
    while True:
        try:
            return attempt()
        except BackendError as error:
            if error.final or clock.monotonic() >= until:
                raise
        clock.sleep(2)


def write(path, content):
    """Write a root-only file atomically; return whether it was another one before."""
    if path.exists() and path.read_bytes() == content:
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    new.replace(path)
    return True


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            domain={"type": "str", "required": True},
            authority={"type": "path", "required": True},
            username={"type": "str", "required": True},
            password_path={"type": "path", "required": True, "no_log": False},
            cluster={"type": "str", "required": True},
            path={"type": "path", "required": True},
            state={"type": "str", "choices": ["values", "connected"], "default": "values"},
            timeout_seconds={"type": "int", "default": 120},
        ),
        supports_check_mode=True,
    )
    want = module.params
    if module.check_mode:
        module.exit_json(changed=want["state"] == "values" and not Path(want["path"]).exists())
    try:
        # In a copy: what is in the module's own parameters is told to whoever logs events.
        password = Path(want["password_path"]).read_text().strip("\n")
        want = dict(want, password=password)
        context = ssl.create_default_context(cafile=want["authority"])
        backend, record = Backend(want["domain"], context), Record(Kubectl.of(module))
        ask = connection if want["state"] == "connected" else fetch
        found = insist(lambda: ask(backend, record, want), want["timeout_seconds"])
    except (BackendError, KubectlError, OSError) as error:
        module.fail_json(msg=str(error))
    if want["state"] == "connected":
        module.exit_json(changed=False, uuid=found[0], connection=found[1])
    uuid, values, created = found
    changed = write(Path(want["path"]), values)
    module.exit_json(changed=changed or created, uuid=uuid, created=created)


if __name__ == "__main__":
    main()
