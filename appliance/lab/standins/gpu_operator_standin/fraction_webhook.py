"""STANDIN: fractions of a GPU, emulated. Turns Run:ai's annotation into slices of a shared GPU.

A pod with ``gpu-fraction: "0.5"`` gets that many slices of ``nvidia.com/gpu.shared``; a fraction
that is no whole number of slices is refused. Nothing keeps two pods on one GPU apart.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gpus import replicas_of

ANNOTATION = "gpu-fraction"
SHARED = "nvidia.com/gpu.shared"
WHOLE = "nvidia.com/gpu"
PORT = 8443
CERTIFICATE = Path("/tls")


class Refused(Exception):
    """A fraction that slices cannot give."""


def slices_for(fraction: str, replicas: int) -> int:
    """Return how many slices a fraction is."""
    try:
        wanted = Decimal(fraction) * replicas
    except InvalidOperation:
        raise Refused(f"STANDIN: {ANNOTATION} {fraction!r} is no number") from None
    if not 0 < wanted <= replicas or wanted != int(wanted):
        raise Refused(f"STANDIN: {ANNOTATION} {fraction} is no multiple of 1/{replicas}")
    return int(wanted)


def patch_for(pod: Mapping[str, Any], replicas: int) -> list[dict[str, Any]]:
    """Return the patch of a pod: its first container asks for slices instead."""
    fraction = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    if fraction is None:
        return []
    container = pod["spec"]["containers"][0]
    resources = container.get("resources") or {}
    if WHOLE in (resources.get("limits") or {}):
        raise Refused(f"STANDIN: a pod asks for {WHOLE} or has {ANNOTATION}, not both")
    count = str(slices_for(fraction, replicas))
    wanted = {
        part: {**(resources.get(part) or {}), SHARED: count} for part in ("limits", "requests")
    }
    return [{"op": "add", "path": "/spec/containers/0/resources", "value": wanted}]


def answer(review: Mapping[str, Any], replicas: int) -> dict[str, Any]:
    """Return the answer to an AdmissionReview."""
    response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
    try:
        patch = patch_for(review["request"]["object"], replicas)
    except Refused as refusal:
        response |= {"allowed": False, "status": {"code": 403, "message": str(refusal)}}
    else:
        if patch:
            text = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": text}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def most_replicas(folder: Path) -> int:
    """Return into how many slices the nodes that share their GPUs cut each."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in folder.iterdir()
        if path.is_file() and not path.name.startswith("..")
    ]
    return max((replicas_of(json.loads(text)) for text in texts), default=0)


class Handler(BaseHTTPRequestHandler):
    """Answers the API server."""

    replicas = 0

    def do_GET(self) -> None:
        """Say that this is here."""
        self._send(b"STANDIN")

    def do_POST(self) -> None:
        """Answer one review."""
        length = int(self.headers.get("Content-Length") or 0)
        self._send(json.dumps(answer(json.loads(self.rfile.read(length)), self.replicas)).encode())

    def _send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve."""
    Handler.replicas = most_replicas(Path(os.environ["CONFIG_DIR"]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE / "tls.crt", CERTIFICATE / "tls.key")
    server = ThreadingHTTPServer(("", PORT), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
