"""The backend's HTTP interface, and which of its clusters is ours.

Python 3.8, standard library. What must not be here: what is asked for, that is each module's own.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.parse
from pathlib import Path

from ansible.module_utils.appliance_http import AnswerTooLargeError, Line, exchange
from ansible.module_utils.appliance_kubectl import ARGUMENTS as OF_KUBECTL
from ansible.module_utils.appliance_kubectl import Kubectl, KubectlError

ARGUMENTS = dict(
    OF_KUBECTL,
    domain={"type": "str", "required": True},
    authority={"type": "path", "required": True},
    username={"type": "str", "required": True},
    password_path={"type": "path", "required": True, "no_log": False},
    cluster={"type": "str", "required": True},
    timeout_seconds={"type": "int", "default": 120},
)
NAMESPACE = "runai-backend"
CONFIG_MAP = "appliance-cluster"
# The planner reads it: step runai is not done as long as it is there.
UNCONFIRMED = "unconfirmed"
FIRST_PASSWORDS, RESEARCHERS = "first-passwords", "researcher-login"
TOKEN = "/auth/realms/runai/protocol/openid-connect/token"  # noqa: S105 - a path
SETTING = "/v1/k8s/setting"
FORM = "application/x-www-form-urlencoded"
CONNECTED = "connected"
AWAY = ("waiting", "disconnected", "not connected")
HTTPS = 443
# For one question and its whole answer; a cluster's values have some tens of kilobytes.
SECONDS, LARGEST_ANSWER = 60, 8 << 20


class BackendError(Exception):
    """The backend did not answer, or not as it should; ``final`` when waiting does not help."""

    def __init__(self, message, final=False):
        super().__init__(message)
        self.final = final


class Backend:
    """The backend's HTTP interface, at its name and over TLS.

    Args:
        domain: its name; the certificate must be for it.
        context: an ssl context that trusts the authority.
    """

    def __init__(self, domain, context):
        self._domain, self._url = domain, "https://%s" % domain
        self._context = context
        self._token = None

    def log_in(self, username, password):
        """Get a token of the realm.

        Raises:
            BackendError: no answer, or the login is refused.
        """
        status, body = self._login(username, password)
        if status == 400:
            # OpenID Connect: the request itself, or the account, not the password.
            raise BackendError(
                "%s does not take a login of %s by password: it answers 400, %s. A user who has to "
                "change the password, or a realm that wants another kind of login, answers so; log "
                "in once in a browser, or download the values of the cluster there and give their "
                "path as runai.cluster_values_file in site.yml"
                % (self._url, username, _error_of(body)),
                final=True,
            )
        if status in (401, 403):
            raise BackendError(
                "%s refuses the login of %s: its password is vault_runai_admin_password in "
                "group_vars/all/vault.yml (ansible-vault edit), the user runai.admin_user in "
                "site.yml" % (self._url, username),
                final=True,
            )
        self._require(status, TOKEN)
        document = _document(body)
        self._token = document.get("id_token") or document.get("access_token")
        if not self._token:
            raise BackendError("%s%s answers without a token" % (self._url, TOKEN))

    def accepts(self, username, password):
        """Return whether a password is right: None where the backend does not say.

        Raises:
            BackendError: no answer.
        """
        status, body = self._login(username, password)
        if status < 300:
            return True
        # Keycloak: invalid_grant is about user and password; the rest is about client or account.
        said = _error_of(body).lower()
        if "invalid_grant" in said and "not fully set up" in said:
            return True
        if "invalid_grant" in said and "invalid user credentials" in said:
            return False
        if status >= 500:
            self._require(status, TOKEN)
        return None

    def settings(self):
        """Return the settings of the tenant; None when the backend does not list them.

        Raises:
            BackendError: no answer.
        """
        status, body = self._ask(SETTING)
        found = _json(body) if status == 200 else None
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else None

    def set(self, key, value):
        """Change a setting of the tenant; return whether the backend took it.

        Raises:
            BackendError: no answer.
        """
        body = json.dumps({"key": key, "value": value}).encode()
        return self._ask(SETTING, body, "application/json", method="PUT")[0] < 300

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
        listed = _json(answer)
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

    def projects(self, uuid):
        """Return the names of a cluster's projects, sorted; None when the backend lists none.

        Raises:
            BackendError: no answer.
        """
        path = "/v1/k8s/clusters/%s/projects" % urllib.parse.quote(uuid)
        status, body = self._ask(path)
        if status in (404, 405):
            return None
        self._require(status, path)
        found = _json(body)
        if not isinstance(found, list):
            return None
        return sorted(str(one.get("name")) for one in found if isinstance(one, dict))

    def _login(self, username, password):
        form = {
            "grant_type": "password",
            "client_id": "runai",
            "scope": "openid",
            "response_type": "id_token",
            "username": username,
            "password": password,
        }
        return self._ask(TOKEN, urllib.parse.urlencode(form).encode(), FORM)

    def _require(self, status, path):
        if status >= 300:
            raise BackendError("%s%s answers %d" % (self._url, path.partition("?")[0], status))

    def _connect(self):
        return Line(self._domain, HTTPS, self._context)

    def _ask(self, path, body=None, kind=None, method=None):
        headers = {"Content-Type": kind} if kind else {}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        verb = method or ("GET" if body is None else "POST")
        line = self._connect()
        try:
            request = (verb, path, body, headers)
            status, _, answer = exchange(line, request, LARGEST_ANSWER, SECONDS)
        except (AnswerTooLargeError, OSError, http.client.HTTPException) as error:
            said = str(error) or type(error).__name__
            raise BackendError("%s does not answer: %s" % (self._url, said)) from error
        finally:
            line.close()
        return status, answer


def _json(body):
    """Return what an answer says, or None."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _document(body):
    found = _json(body)
    return found if isinstance(found, dict) else {}


def _error_of(body):
    """Return the words of an OpenID Connect error, without what a terminal would act on."""
    document = _document(body)
    said = [str(document.get(key) or "") for key in ("error", "error_description")]
    text = ": ".join(word for word in said if word) or "without a reason"
    return "".join(c if c.isprintable() else " " for c in text)[:200]


class Record:
    """Which cluster is ours, kept in a ConfigMap."""

    def __init__(self, kubectl):
        self._kubectl = kubectl

    def read(self):
        """Return {cluster, uuid}, or an empty dictionary; the uuid is empty until it is told.

        ``unconfirmed`` is there until the backend was seen to know the cluster.
        """
        found = self._kubectl.get("configmap", CONFIG_MAP, "--namespace=" + NAMESPACE)
        return (found or {}).get("data") or {}

    def write(self, cluster, uuid):
        """Keep the uuid of a cluster; one request, so that nothing is lost in between."""
        where = ["configmap", CONFIG_MAP, "--namespace=" + NAMESPACE]
        if self._kubectl.get(*where) is None:
            words = ("cluster=" + cluster, "uuid=" + uuid, UNCONFIRMED + "=true")
            self._kubectl.call(["create", *where, *("--from-literal=" + word for word in words)])
        else:
            self._patch({"cluster": cluster, "uuid": uuid, UNCONFIRMED: "true"})

    def confirm(self):
        """Note that the backend knows the cluster; return whether that was not noted yet."""
        if UNCONFIRMED not in self.read():
            return False
        self._patch({UNCONFIRMED: None})
        return True

    def note(self, data):
        """Keep what was found; return whether it was not noted yet."""
        known = self.read()
        if all(known.get(key) == value for key, value in data.items()):
            return False
        where = ["configmap", CONFIG_MAP, "--namespace=" + NAMESPACE]
        if self._kubectl.get(*where) is None:
            self._kubectl.call(["create", *where])
        self._patch(data)
        return True

    def labelled(self, kind, label):
        """Return name -> the label's value, of the objects of a kind that have the label."""
        found = self._kubectl.get(kind, "--selector=" + label)
        items = [one["metadata"] for one in (found or {}).get("items", [])]
        return {one["name"]: (one.get("labels") or {}).get(label, "") for one in items}

    def _patch(self, data):
        where = ["configmap", CONFIG_MAP, "--namespace=" + NAMESPACE, "--type=merge"]
        self._kubectl.call(["patch", *where, "--patch=" + json.dumps({"data": data})])

    def forget(self):
        """Keep nothing."""
        namespace = "--namespace=" + NAMESPACE
        self._kubectl.call(["delete", "configmap", CONFIG_MAP, namespace, "--ignore-not-found"])


def connection(backend, record, want):
    """Return (uuid, what the backend says of it, whether that is noted just now).

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
    said = "".join(c for c in str(ours[0].get("status") or "") if c.isprintable())[:100]
    if said.lower().replace("_", " ").startswith(AWAY):
        raise BackendError(
            "the pods of the cluster %s are ready, and the backend says of it: %s. See why: "
            "kubectl -n runai logs deployment/runai-agent" % (want["cluster"], said)
        )
    return uuid, said, record.confirm()


def is_shown(said):
    """Return whether the backend's word is the known one for a connection."""
    return said.strip().lower() == CONNECTED


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


def answer(module, ask):
    """Return what ``ask(backend, record, want)`` says, once the backend answers as it should."""
    want = module.params
    try:
        # In a copy: what is in the module's own parameters is told to whoever logs events.
        password = Path(want["password_path"]).read_text().strip("\n")
        want = dict(want, password=password)
        context = ssl.create_default_context(cafile=want["authority"])
        backend, record = Backend(want["domain"], context), Record(Kubectl.of(module))
        return insist(lambda: ask(backend, record, want), want["timeout_seconds"])
    except (BackendError, KubectlError, OSError) as error:
        module.fail_json(msg=str(error))
