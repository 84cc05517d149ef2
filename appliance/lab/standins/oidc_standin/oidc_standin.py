#!/usr/bin/python3
"""STANDIN for the backend's Keycloak realm: an OIDC issuer over TLS that signs with RS256.

Plays three paths of ``/auth/realms/runai``: the openid-configuration, the keys (JWKS), and the
token endpoint with the password grant. Standard library and the openssl command.
Nothing it signs is worth anything outside of a lab: every token says ``"standin": true``.

    oidc_standin.py --issuer https://runai.rack.test/auth/realms/runai --port 443
        --certificate tls.crt --key tls.key --signing-key signing.pem --users users.json

``users.json``: {"ada": {"password": "...", "sub": "...", "email": "...", "groups": []}}.
The signing key is made when it is absent.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import os
import re
import ssl
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

LIFE_SECONDS = 300
CLIENTS = ("runai", "runai-cli", "runai-cli-sso")
EXPONENT = 65537


def base64url(data: bytes) -> str:
    """Base64 as JOSE wants it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*arguments: str, feed: bytes = b"") -> bytes:
    """What the openssl command prints."""
    done = subprocess.run(["openssl", *arguments], input=feed, stdout=subprocess.PIPE, check=True)
    return done.stdout


class Signer:
    """An RSA key that signs tokens; made when its file is absent."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        if not path.exists():
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(openssl("genrsa", "2048"))
        text = openssl("rsa", "-in", self._path, "-noout", "-modulus").decode()
        modulus = re.sub(r"\s", "", text.partition("=")[2])
        self.modulus = bytes.fromhex(modulus)
        self.identity = hashlib.sha256(self.modulus).hexdigest()[:16]

    def key(self) -> dict[str, str]:
        """The public key as a JWK."""
        return {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": self.identity,
            "n": base64url(self.modulus),
            "e": base64url(EXPONENT.to_bytes(3, "big")),
        }

    def sign(self, claims: dict[str, Any]) -> str:
        """A signed token (JWT)."""
        header = {"alg": "RS256", "typ": "JWT", "kid": self.identity}
        parts = [base64url(json.dumps(part).encode()) for part in (header, claims)]
        text = ".".join(parts).encode()
        signature = openssl("dgst", "-sha256", "-sign", self._path, feed=text)
        return f"{text.decode()}.{base64url(signature)}"


class Realm:
    """The realm: who it is, who its users are, what it answers."""

    def __init__(self, issuer: str, signer: Signer, users: Path) -> None:
        self.issuer = issuer
        self.path = urlsplit(issuer).path
        self._signer = signer
        self._users = users

    def configuration(self) -> dict[str, Any]:
        """The openid-configuration."""
        protocol = self.issuer + "/protocol/openid-connect"
        return {
            "issuer": self.issuer,
            "authorization_endpoint": protocol + "/auth",
            "token_endpoint": protocol + "/token",
            "jwks_uri": protocol + "/certs",
            "response_types_supported": ["code", "id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "grant_types_supported": ["password"],
            "standin": True,
        }

    def keys(self) -> dict[str, Any]:
        """The JWKS."""
        return {"keys": [self._signer.key()]}

    def token(self, form: dict[str, str], now: float) -> tuple[int, dict[str, Any]]:
        """Answer the password grant as Keycloak does: (status, document)."""
        if form.get("grant_type") != "password":
            return 400, {"error": "unsupported_grant_type"}
        if form.get("client_id") not in CLIENTS:
            return 401, {"error": "invalid_client"}
        name = form.get("username", "")
        user = json.loads(self._users.read_text()).get(name)
        given = form.get("password", "")
        if user is None or not hmac.compare_digest(user["password"], given):
            return 401, {"error": "invalid_grant", "error_description": "Invalid user credentials"}
        claims = {
            "iss": self.issuer,
            "aud": form["client_id"],
            "azp": form["client_id"],
            "sub": user["sub"],
            "iat": int(now),
            "exp": int(now) + LIFE_SECONDS,
            "preferred_username": name,
            "email": user.get("email", ""),
            "email_verified": True,
            "groups": user.get("groups", []),
            "standin": True,
        }
        token = self._signer.sign(claims)
        return 200, {
            "access_token": token,
            "id_token": token,
            "expires_in": LIFE_SECONDS,
            "token_type": "Bearer",
        }


class Handler(BaseHTTPRequestHandler):
    """The realm's paths."""

    realm: Realm
    server_version = "STANDIN"

    def do_GET(self) -> None:
        """The configuration, or the keys."""
        answers = {
            self.realm.path + "/.well-known/openid-configuration": self.realm.configuration,
            self.realm.path + "/protocol/openid-connect/certs": self.realm.keys,
        }
        answer = answers.get(urlsplit(self.path).path)
        if answer is None:
            self._reply(404, {"error": "not found"})
        else:
            self._reply(200, answer())

    def do_POST(self) -> None:
        """The token endpoint."""
        if urlsplit(self.path).path != self.realm.path + "/protocol/openid-connect/token":
            self._reply(404, {"error": "not found"})
            return
        length = min(int(self.headers.get("Content-Length") or 0), 1 << 16)
        form = parse_qs(self.rfile.read(length).decode("utf-8", "replace"))
        given = {key: values[0] for key, values in form.items()}
        self._reply(*self.realm.token(given, time.time()))

    def _reply(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002
        """Method, path and status alone: a form holds passwords."""
        sys.stderr.write(f"{self.command} {self.path} {code}\n")


def serve(address: str, port: int, realm: Realm, pair: tuple[str, str]) -> ThreadingHTTPServer:
    """A server of the realm over TLS, ready to be run."""
    bound = type("Bound", (Handler,), {"realm": realm})
    server = ThreadingHTTPServer((address, port), bound)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


def main(arguments: list | None = None) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="STANDIN: an OIDC issuer for a lab.")
    parser.add_argument("--address", default="0.0.0.0")  # noqa: S104  (a lab's own network)
    parser.add_argument("--port", type=int, default=443)
    parser.add_argument("--issuer", required=True)
    for name in ("certificate", "key", "signing-key", "users"):
        parser.add_argument("--" + name, type=Path, required=True)
    options = parser.parse_args(arguments)
    realm = Realm(options.issuer, Signer(options.signing_key), options.users)
    pair = (str(options.certificate), str(options.key))
    serve(options.address, options.port, realm, pair).serve_forever()


if __name__ == "__main__":
    main()
