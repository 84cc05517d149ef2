"""STANDIN of the Run:ai backend: login page, realm, clusters and projects over TLS.

Only what the vendor's documents and known scripts name, and the path of jobs, which is our own:
documents say that the cluster part reports jobs, and not where. State is in the database's
stand-in.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import tokens

DOMAIN = os.environ.get("DOMAIN", "runai.standin.example")
VERSION = os.environ.get("VERSION", "0.0.0")
REGISTRY = os.environ.get("REGISTRY", "")
STORE = os.environ.get("STORE_URL", "http://runai-backend-postgresql:5432")
SECRETS = Path(os.environ.get("SECRETS_DIR", "/etc/runai-backend"))
REALM = "/auth/realms/runai"
SETTING = "/v1/k8s/setting"
# The first key is one of a public script; the second key is ours, its label that of the page.
KNOWN = (
    {"key": "tenant.login_with_sso", "label": "Login with SSO", "type": "Boolean"},
    {"key": "tenant.standin_researcher_authentication", "label": "Researcher Authentication",
     "type": "Boolean"},
)  # fmt: skip
CLIENTS = {"runai", "runai-cli", "runai-cli-sso"}
TOKEN_SECONDS, REFRESH_SECONDS = 300, 36_000
CONNECTED_SECONDS = 30
PAGE = """<!doctype html><html><head><title>Run:ai STANDIN</title></head><body>
<h1>Run:ai STANDIN %s</h1><form method="post" action="%s/protocol/openid-connect/token">
<label>Email <input name="username"></label><label>Password <input name="password" type="password">
</label><button>Log in</button></form></body></html>
"""
INSTALLFILE = """# STANDIN: values of the cluster part of cluster {name}
global:
  image: {{registry: {registry}}}
controlPlane: {{url: "https://{domain}", clientSecret: "{password}"}}
cluster: {{uid: "{uuid}", url: "https://{domain}"}}
gpu-feature-discovery: {{enabled: false, nfd: {{deploy: false}}}}
kube-prometheus-stack: {{enabled: false}}
ingress-nginx: {{enabled: false}}
prometheus-adapter: {{enabled: false}}
pspEnabled: false
runai-operator:
  config:
    global: {{runtime: docker}}
    mps-server: {{enabled: false}}
    nvidiaDcgmExporter: {{namespace: gpu-operator}}
    project-controller:
      {{clusterWideSecret: true, createNamespaces: true, createRoleBindings: true}}
    researcher-service: {{args: {{authEnabled: false}}}}
    runai-container-toolkit: {{enabled: true}}
    runaiBackend: {{password: "{password}"}}
"""


class Store:
    """Documents of the database; one lock, because documents are read, changed and written."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def get(self, name: str, default: Any) -> Any:
        """A document."""
        try:
            with urllib.request.urlopen(f"{STORE}/{name}", timeout=5) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return default
            raise

    def put(self, name: str, value: Any) -> None:
        """Replace a document."""
        request = urllib.request.Request(
            f"{STORE}/{name}", data=json.dumps(value).encode(), method="PUT"
        )
        urllib.request.urlopen(request, timeout=5).close()

    def key(self) -> tokens.Key:
        """The realm's key; made when there is none."""
        with self.lock:
            found: tokens.Key | None = self.get("realm_key", None)
            if found is None:
                found = tokens.new_key()
                self.put("realm_key", found)
            return found


class Backend(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    store = Store()

    def do_GET(self) -> None:
        """Pages, the realm, clusters."""
        self._guarded(self._get)

    def do_POST(self) -> None:
        """Tokens, new clusters and projects, signs of life."""
        self._guarded(self._post)

    def do_PUT(self) -> None:
        """A setting of the tenant."""
        self._guarded(self._put)

    def _guarded(self, answer: Any) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer(urlsplit(self.path), content)
        except (OSError, ValueError, KeyError) as error:
            self._json(503 if isinstance(error, OSError) else 400, {"message": str(error)})

    def _get(self, url: Any, _: bytes) -> None:
        path = url.path.rstrip("/")
        if path in ("", "/login"):
            self._text(200, PAGE % (VERSION, REALM), "text/html; charset=utf-8")
        elif path == "/healthz":
            self.store.key()
            self._text(200, "STANDIN\n")
        elif path == REALM:
            self._json(200, _realm())
        elif path == f"{REALM}/.well-known/openid-configuration":
            self._json(200, _configuration())
        elif path == f"{REALM}/protocol/openid-connect/certs":
            self._json(200, {"keys": [tokens.public(self.store.key())]})
        elif path == SETTING:
            listed = [{**one, "value": self._settings().get(one["key"], False)} for one in KNOWN]
            self._json(*((200, listed) if self._user() else (401, {"message": "Unauthorized"})))
        elif path.startswith("/v1/k8s/clusters"):
            self._get_clusters(path, url.query)
        else:
            self._json(404, {"message": "not found"})

    def _get_clusters(self, path: str, query: str) -> None:
        clusters = self.store.get("clusters", {})
        parts = path.split("/")[4:]
        own = bool(parts) and self._is_cluster(clusters.get(parts[0]))
        if not own and not self._user():
            self._json(401, {"message": "Unauthorized"})
        elif not parts:
            self._json(200, [_shown(cluster) for cluster in clusters.values()])
        elif parts[0] not in clusters:
            self._json(404, {"message": "no such cluster"})
        elif parts[1:] == ["installfile"]:
            cloud = parse_qs(query).get("cloud", [""])[0]
            if cloud != "op":
                self._json(400, {"message": f"unknown cloud {cloud!r}"})
                return
            text = INSTALLFILE.format(domain=DOMAIN, registry=REGISTRY, **clusters[parts[0]])
            self._text(200, text, "application/yaml")
        elif parts[1:] in (["projects"], ["jobs"]):
            self._json(200, self.store.get(parts[1], {}).get(parts[0], []))
        elif len(parts) == 1:
            self._json(200, _shown(clusters[parts[0]]))
        else:
            self._json(404, {"message": "not found"})

    def _settings(self) -> dict[str, Any]:
        found: dict[str, Any] = self.store.get("settings", {})
        return found

    def _put(self, url: Any, content: bytes) -> None:
        if url.path.rstrip("/") != SETTING or not self._user():
            self._json(401, {"message": "Unauthorized"})
            return
        body = json.loads(content)
        if body["key"] not in {one["key"] for one in KNOWN}:
            self._json(404, {"message": "no such setting"})
            return
        with self.store.lock:
            self.store.put("settings", {**self._settings(), body["key"]: body["value"]})
        self._json(200, {})

    def _post(self, url: Any, content: bytes) -> None:
        if url.path == f"{REALM}/protocol/openid-connect/token":
            self._token({key: values[0] for key, values in parse_qs(content.decode()).items()})
            return
        parts = url.path.rstrip("/").split("/")[4:]
        if url.path.rstrip("/") == "/v1/k8s/clusters" and self._user():
            self._new_cluster(json.loads(content))
        elif url.path.startswith("/v1/k8s/clusters/") and parts[1:] == ["status"]:
            self._alive(parts[0], json.loads(content))
        elif url.path.startswith("/v1/k8s/clusters/") and parts[1:] == ["jobs"]:
            self._take_jobs(parts[0], json.loads(content))
        elif (
            url.path.startswith("/v1/k8s/clusters/") and parts[1:] == ["projects"] and self._user()
        ):
            self._new_project(parts[0], json.loads(content))
        else:
            self._json(401, {"message": "Unauthorized"})

    def _token(self, form: dict[str, str]) -> None:
        key, now = self.store.key(), time.time()
        if form.get("client_id") not in CLIENTS:
            self._json(401, {"error": "invalid_client"})
            return
        if form.get("grant_type") == "password":
            user = form.get("username", "")
            known = json.loads((SECRETS / "users.json").read_text()).get(user)
            if not known or not secrets.compare_digest(known.encode(), form["password"].encode()):
                self._json(401, {"error": "invalid_grant",
                                 "error_description": "Invalid user credentials"})  # fmt: skip
                return
        elif form.get("grant_type") == "refresh_token":
            claims = tokens.claims_of(key, form.get("refresh_token", ""), now)
            if not claims or claims.get("typ") != "Refresh":
                self._json(400, {"error": "invalid_grant"})
                return
            user = claims["email"]
        else:
            self._json(400, {"error": "unsupported_grant_type"})
            return
        self._json(200, _answer(key, user, form["client_id"], int(now)))

    def _new_cluster(self, body: dict[str, Any]) -> None:
        with self.store.lock:
            clusters = self.store.get("clusters", {})
            if any(known["name"] == body["name"] for known in clusters.values()):
                self._json(409, {"message": f"cluster {body['name']} exists"})
                return
            cluster = {
                "uuid": str(uuid.uuid4()),
                "name": str(body["name"]),
                "description": str(body.get("description", "")),
                "password": secrets.token_urlsafe(24),
            }
            clusters[cluster["uuid"]] = cluster
            self.store.put("clusters", clusters)
        self._json(201, _shown(cluster))

    def _new_project(self, cluster: str, body: dict[str, Any]) -> None:
        with self.store.lock:
            projects = self.store.get("projects", {})
            known = projects.setdefault(cluster, [])
            if any(project["name"] == body["name"] for project in known):
                self._json(409, {"message": f"project {body['name']} exists"})
                return
            known.append(body)
            self.store.put("projects", projects)
        self._json(201, body)

    def _alive(self, name: str, body: dict[str, Any]) -> None:
        with self.store.lock:
            clusters = self.store.get("clusters", {})
            if not self._is_cluster(clusters.get(name)):
                self._json(401, {"message": "Unauthorized"})
                return
            clusters[name].update(last_seen=time.time(), version=str(body.get("version", "")))
            self.store.put("clusters", clusters)
        self._json(200, {})

    def _take_jobs(self, name: str, listed: list[dict[str, Any]]) -> None:
        """Jobs that the cluster reports; one that it reports no more stays in the history."""
        with self.store.lock:
            if not self._is_cluster(self.store.get("clusters", {}).get(name)):
                self._json(401, {"message": "Unauthorized"})
                return
            jobs = self.store.get("jobs", {})
            known = {one["uid"]: one for one in [*jobs.get(name, []), *listed]}
            self.store.put("jobs", {**jobs, name: list(known.values())})
        self._json(200, {})

    def _bearer(self) -> str:
        return str(self.headers.get("Authorization") or "").removeprefix("Bearer ").strip()

    def _user(self) -> str | None:
        claims = tokens.claims_of(self.store.key(), self._bearer(), time.time())
        return claims.get("email") if claims else None

    def _is_cluster(self, cluster: dict[str, Any] | None) -> bool:
        return bool(cluster) and secrets.compare_digest(
            str(cluster["password"]).encode(), self._bearer().encode()
        )

    def _json(self, code: int, value: Any) -> None:
        self._text(code, json.dumps(value), "application/json")

    def _text(self, code: int, text: str, kind: str = "text/plain") -> None:
        content = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Server", "STANDIN")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, form: str, *values: object) -> None:
        """Method, path and code; never a body or a header."""
        sys.stderr.write("STANDIN backend: %s\n" % (form % values))


def _issuer() -> str:
    return f"https://{DOMAIN}{REALM}"


def _realm() -> dict[str, Any]:
    return {
        "realm": "runai",
        "token-service": f"{_issuer()}/protocol/openid-connect",
        "account-service": f"{_issuer()}/account",
        "tokens-not-before": 0,
    }


def _configuration() -> dict[str, Any]:
    connect = f"{_issuer()}/protocol/openid-connect"
    return {
        "issuer": _issuer(),
        "authorization_endpoint": f"{connect}/auth",
        "token_endpoint": f"{connect}/token",
        "jwks_uri": f"{connect}/certs",
        "grant_types_supported": ["password", "refresh_token"],
        "response_types_supported": ["code", "id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "claims_supported": ["sub", "iss", "email", "preferred_username", "groups"],
    }


def _answer(key: tokens.Key, user: str, client: str, now: int) -> dict[str, Any]:
    own = {
        "iss": _issuer(),
        "iat": now,
        "sub": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{DOMAIN}/{user}")),
        "email": user,
        "email_verified": True,
        "preferred_username": user,
        "azp": client,
    }
    over, later = now + TOKEN_SECONDS, now + REFRESH_SECONDS
    return {
        "access_token": tokens.sign(key, {**own, "typ": "Bearer", "aud": "account", "exp": over}),
        "id_token": tokens.sign(key, {**own, "typ": "ID", "aud": client, "exp": over}),
        "refresh_token": tokens.sign(
            key, {**own, "typ": "Refresh", "aud": _issuer(), "exp": later}
        ),
        "expires_in": TOKEN_SECONDS,
        "refresh_expires_in": REFRESH_SECONDS,
        "token_type": "Bearer",
        "scope": "openid profile email",
    }


def _shown(cluster: dict[str, Any]) -> dict[str, Any]:
    seen = cluster.get("last_seen")
    state = "waiting to connect"
    if seen:
        state = "connected" if time.time() - seen < CONNECTED_SECONDS else "disconnected"
    return {
        "uuid": cluster["uuid"],
        "name": cluster["name"],
        "description": cluster["description"],
        "status": state,
        "version": cluster.get("version", ""),
    }


def main() -> None:
    """Serve over TLS, with the certificate of the values file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(SECRETS / "tls.crt", SECRETS / "tls.key")
    except (OSError, ssl.SSLError) as error:
        sys.stderr.write(f"STANDIN backend: FATAL: certificate and key: {error}\n")
        raise SystemExit(1) from error
    server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8443"))), Backend)
    # Handshakes in the threads: one slow client must not keep the others waiting.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    sys.stderr.write(f"STANDIN backend {VERSION} for https://{DOMAIN}\n")
    server.serve_forever()


if __name__ == "__main__":
    main()
