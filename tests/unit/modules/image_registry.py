"""A registry over TLS on loopback, and the programs of a node that save and restore its images.

It keeps what it is given by digest, serves ranges of blobs, and breaks where a test says so. The
one thing that is not real is crane: its part reads the very layouts that crane would.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.modules.loading import load, load_utils
from tests.unit.modules.test_registry_push import digest_of, self_signed

load("runai_saved_state", role="runai_upgrade")
load_utils("appliance_image_restore")
from ansible.module_utils import appliance_backup as gathering  # noqa: E402
from ansible.module_utils import appliance_backup_cluster as cluster  # noqa: E402
from ansible.module_utils import appliance_backup_folder as folders  # noqa: E402
from ansible.module_utils import appliance_image_backup as saving  # noqa: E402
from ansible.module_utils import appliance_image_restore as restoring  # noqa: E402
from ansible.module_utils import appliance_registry_push as pushing  # noqa: E402

__all__ = ["MANIFEST", "Registry", "ServicesNode", "filled", "restoring", "saving"]

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
LOGIN = base64.b64encode(b"appliance:secret").decode()


class Registry:
    """Repositories, their manifests and tags, and the blobs of all of them.

    Attributes:
        tags: repository -> tag -> digest.
        manifests: (repository, digest) -> content and media type.
        blobs: digest -> content; every repository has all of them.
        breaks: digest -> after how many bytes each answer with it ends.
        given: digest -> how often it was read.
        address: NAME:PORT, once it is served.
    """

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, str]] = {}
        self.manifests: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.blobs: dict[str, bytes] = {}
        self.breaks: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.address = ""

    def put(self, name: str, *layers: bytes) -> str:
        """Add an image of these layers; its digest."""
        described = [self._blob(f'{{"of": "{name}"}}'.encode()), *map(self._blob, layers)]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0]}
        content = json.dumps({**manifest, "layers": described[1:]}).encode()
        return self.put_manifest(name, content, MANIFEST)

    def put_index(self, name: str, *digests: str) -> str:
        """Add a list of images of the same repository; its digest."""
        listed = [{"mediaType": MANIFEST, "digest": one} for one in digests]
        content = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed})
        return self.put_manifest(name, content.encode(), INDEX)

    def put_manifest(self, name: str, content: bytes, kind: str) -> str:
        repository, _, tag = name.rpartition(":")
        digest = digest_of(content)
        self.manifests[repository, digest] = (content, kind)
        self.tags.setdefault(repository, {})[tag] = digest
        return digest

    def _blob(self, content: bytes) -> dict[str, Any]:
        self.blobs[digest_of(content)] = content
        return {"mediaType": LAYER, "digest": digest_of(content), "size": len(content)}

    def forget(self) -> None:
        """Everything is lost."""
        self.tags, self.manifests, self.blobs = {}, {}, {}

    def images(self) -> dict[str, str]:
        """Name -> digest."""
        listed = self.tags.items()
        return {f"{name}:{tag}": one for name, tags in listed for tag, one in tags.items()}

    def answer(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers."""
        parts = urlsplit(path)
        if parts.path == "/v2/_catalog":
            query = parse_qs(parts.query)
            last, most = query.get("last", [""])[0], int(query["n"][0])
            names = sorted(one for one in self.tags if one > last)[:most]
            return 200, json.dumps({"repositories": names}).encode(), {}
        name, kind, reference = parts.path.removeprefix("/v2/").rsplit("/", 2)
        if kind == "tags":
            return 200, json.dumps({"tags": sorted(self.tags.get(name, {}))}).encode(), {}
        if kind == "manifests":
            digest = self.tags.get(name, {}).get(reference, reference)
            content, media = self.manifests.get((name, digest), (b"", ""))
            more = {"Docker-Content-Digest": digest, "Content-Type": media}
            return (200, content, more) if content else (404, b"", {})
        found = self.blobs.get(reference)
        return (404, b"", {}) if found is None else (200, found, {})

    @contextmanager
    def served(self, folder: Path) -> Iterator[Path]:
        """Serve it on loopback; yield the file of its authority."""
        pem = self_signed(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"registry": self})
        )
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.address = f"127.0.0.1:{server.server_address[1]}"
        try:
            yield pem
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers for the registry of its server."""

    registry: Registry
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        status, content, more = self.registry.answer(self.path)
        start = self.headers.get("Range", "")
        if status == 200 and start:
            status, content = 206, content[int(start[6:].rstrip("-")) :]
        self.send_response(status)
        for key, value in {**more, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self._write(content)

    def _write(self, content: bytes) -> None:
        digest = self.path.rpartition("/")[2]
        self.registry.given[digest] = self.registry.given.get(digest, 0) + 1
        most = self.registry.breaks.get(digest)
        self.wfile.write(content[:most])
        self.close_connection = most is not None

    def do_DELETE(self) -> None:
        name, _, digest = self.path.removeprefix("/v2/").rsplit("/", 2)
        has_login = self.headers["Authorization"] == f"Basic {LOGIN}"
        if has_login:
            self.registry.manifests.pop((name, digest), None)
        self.send_response(202 if has_login else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, *_: object) -> None:
        pass


class ServicesNode:
    """The node that runs a registry: what its programs say and take."""

    def __init__(self, registry: Registry, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.registry = registry
        self.pushes: list[str] = []
        login = {"auths": {registry.address: {"auth": LOGIN}}}
        (folder / "config.json").write_text(json.dumps(login))
        (folder / "config.yml").write_text(f"storage:\n  x:\n    rootdirectory: {folder}\n")
        patch.setattr(cluster, "CA", str(folder / "tls.pem"))
        patch.setattr(cluster, "LOGIN", str(folder))
        patch.setattr(restoring, "CONFIGURATION", folder / "config.yml")
        patch.setattr(restoring, "RESERVE", 0)
        patch.setattr(folders, "PLACE", folder / "backup")
        patch.setattr(pushing, "PUSH_DIR", folder / "push")
        patch.setattr(pushing, "push", self._push)

    def look(self) -> dict[str, Any]:
        """What a backup is planned by."""
        found: dict[str, Any] = saving.look({"registry": self.registry.address})
        return found

    def sent(self) -> bytes:
        """All that the node sends to a backup."""
        found, out = gathering.Gathered(), io.BytesIO()
        saving.of_images(found, {"registry": self.registry.address}, None)
        gathering.send(found, out)
        return out.getvalue()

    def act(self, want: Mapping[str, Any], given: bytes) -> dict[str, Any]:
        """One act of a restore."""
        wanted = {**want, "registry": self.registry.address}
        found: dict[str, Any] = restoring.act_of(wanted, io.BytesIO(given))
        return found

    def _push(self, want: Mapping[str, Any], images: Sequence[str]) -> None:
        """As crane does: an image by the one manifest in its layout, and only what that needs."""
        for image in images:
            layout = pushing.single_layout(Path(want["layout"]), image, want["images"][image])
            (one,) = json.loads((layout / "index.json").read_text())["manifests"]
            self._take(layout, image, one["digest"], one["mediaType"])
            self.pushes.append(image)

    def _take(self, layout: Path, image: str, digest: str, kind: str) -> None:
        content = self._read(layout, digest)
        document = json.loads(content)
        for child in document.get("manifests", []):
            self._take(layout, image, child["digest"], child["mediaType"])
        for blob in [document.get("config"), *document.get("layers", [])]:
            if blob:
                self.registry.blobs[blob["digest"]] = self._read(layout, blob["digest"])
        self.registry.put_manifest(image, content, kind)

    def _read(self, layout: Path, digest: str) -> bytes:
        content = (layout / "blobs" / digest.replace(":", "/")).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest.partition(":")[2]
        return content


def filled() -> Registry:
    """A registry of four images, two of which share a layer, and one of which is a list."""
    registry = Registry()
    base = b"base layer" * 50_000
    registry.put("pause:3.6", base)
    registry.put("team/train:1", base, b"own layer" * 1000)
    registry.put("team/train:2", b"another")
    registry.put_index("multi:1", registry.put("multi:amd64", b"for amd64"))
    return registry
