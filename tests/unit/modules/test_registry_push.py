"""What a registry lacks, asked over TLS from a registry of the test's own."""

from __future__ import annotations

import datetime
import hashlib
import http.server
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from tests.unit.modules.loading import load_utils

registry_push = load_utils("appliance_registry_push")


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


class FakeRegistry:
    """Serves manifests and blobs that a test puts into it."""

    def __init__(self) -> None:
        self.manifests: dict[tuple[str, str], bytes] = {}
        self.blobs: dict[tuple[str, str], int] = {}
        self.broken = False

    def put(self, name: str, tag: str) -> str:
        config, layer = f"config {name}".encode(), f"layer {name}".encode()
        described = []
        for content in (config, layer):
            self.blobs[name, digest_of(content)] = len(content)
            described.append({"digest": digest_of(content), "size": len(content)})
        manifest = json.dumps({"config": described[0], "layers": described[1:]}).encode()
        self.manifests[name, tag] = self.manifests[name, digest_of(manifest)] = manifest
        return digest_of(manifest)

    def answer(self, path: str) -> tuple[int, bytes, int]:
        name, kind, reference = path.removeprefix("/v2/").rsplit("/", 2)
        if self.broken:
            return 500, b"", 0
        if kind == "manifests":
            body = self.manifests.get((name, reference))
            return (200, body, len(body)) if body else (404, b"", 0)
        size = self.blobs.get((name, reference))
        return (404, b"", 0) if size is None else (200, b"", size)


def self_signed(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    path = folder / "tls.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[FakeRegistry, Any]]:
    fake = FakeRegistry()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body, length = fake.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_DELETE(self) -> None:
            self.send_response(202 if self.headers["Authorization"] == "Basic coded" else 401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    pem = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake, registry_push.Registry(f"127.0.0.1:{server.server_address[1]}", str(pem))
    server.shutdown()
    thread.join()
    server.server_close()


def test_images_that_are_there_with_every_blob_are_no_fault(
    served: tuple[FakeRegistry, Any],
) -> None:
    fake, registry = served
    images = {"pause:3.6": fake.put("pause", "3.6"), "etcd:3.5.1-0": fake.put("etcd", "3.5.1-0")}
    assert registry.faults(images) == {}


def test_each_way_in_which_an_image_is_incomplete_is_reported(
    served: tuple[FakeRegistry, Any],
) -> None:
    fake, registry = served
    images = {f"{name}:1": fake.put(name, "1") for name in ("a", "b", "c", "d")}
    del fake.manifests["a", "1"]
    images["b:1"] = "sha256:" + "0" * 64
    fake.blobs.pop(("c", digest_of(b"layer c")))
    fake.blobs["d", digest_of(b"layer d")] = 1
    faults = registry.faults(images)
    assert faults["a:1"] == "absent"
    assert faults["b:1"] == "another digest"
    assert faults["c:1"].endswith("is missing")
    assert faults["d:1"].endswith("has another size")


def test_the_children_of_an_index_are_asked_for_too(served: tuple[FakeRegistry, Any]) -> None:
    fake, registry = served
    child = fake.put("multi", "child")
    index = json.dumps({"manifests": [{"digest": child}]}).encode()
    fake.manifests["multi", "1"] = index
    assert registry.faults({"multi:1": digest_of(index)}) == {}
    fake.blobs.clear()
    assert "is missing" in registry.faults({"multi:1": digest_of(index)})["multi:1"]


def test_a_registry_that_breaks_or_is_away_is_a_fault_of_each_image(
    served: tuple[FakeRegistry, Any], tmp_path: Path
) -> None:
    fake, registry = served
    fake.broken = True
    assert registry.faults({"a:1": "x"}) == {"a:1": "the registry answers 500"}
    away = registry_push.Registry("127.0.0.1:1", str(tmp_path / "tls.pem"))
    assert "does not answer" in away.faults({"a:1": "x"})["a:1"]


def test_one_image_is_taken_out_of_the_layout_without_copying_blobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_push, "PUSH_DIR", tmp_path / "push")
    layout = tmp_path / "images"
    (layout / "blobs").mkdir(parents=True)
    (layout / "oci-layout").write_text("{}")
    entries = [
        {"mediaType": "m", "digest": f"sha256:{n}", "size": n, "annotations": {"x": "y"}}
        for n in (1, 2)
    ]
    (layout / "index.json").write_text(json.dumps({"manifests": entries}))
    for _ in range(2):
        folder = registry_push.single_layout(layout, "a/b:1", "sha256:2")
    assert folder.parent == tmp_path / "push"
    assert (folder / "blobs").resolve() == (layout / "blobs").resolve()
    found = json.loads((folder / "index.json").read_text())["manifests"]
    assert found == [{"mediaType": "m", "digest": "sha256:2", "size": 2}]
    with pytest.raises(registry_push.RegistryError, match="is not in the layout"):
        registry_push.single_layout(layout, "c:1", "sha256:3")


def test_what_a_push_would_take_for_whole_is_taken_away_first(tmp_path: Path) -> None:
    whole, short = "a" * 64, "b" * 64
    blobs = tmp_path / "docker/registry/v2/blobs/sha256"
    for name in (whole, short):
        (blobs / name[:2] / name).mkdir(parents=True)
    forgotten: list[tuple[str, str]] = []

    class Registry:
        def forget(self, image: str, digest: str) -> None:
            forgotten.append((image, digest))

    login = {"auths": {"registry.test:5000": {"auth": "coded"}}}
    (tmp_path / "config.json").write_text(json.dumps(login))
    want = {
        "storage": str(tmp_path),
        "images": {"a:1": "A", "b:1": "B", "c:1": "C"},
        "login_dir": str(tmp_path),
        "registry": "registry.test:5000",
    }
    faults = {
        "a:1": f"blob sha256:{whole} is missing",
        "b:1": f"blob sha256:{short} has another size",
        "c:1": "absent",
    }
    registry_push.clear(Registry(), want, faults)
    assert forgotten == [("a:1", "A"), ("b:1", "B")]
    assert [path.name for path in sorted(blobs.glob("*/*"))] == [whole]


def test_without_a_login_for_this_registry_nothing_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"other.test:5000": {"auth": "x"}}}))
    want = {
        "login_dir": str(tmp_path),
        "registry": "registry.test:5000",
        "storage": str(tmp_path),
        "images": {"a:1": "A"},
    }
    faults = {"a:1": f"blob sha256:{'a' * 64} is missing"}
    with pytest.raises(registry_push.RegistryError, match=r"no login for registry\.test:5000"):
        registry_push.clear(None, want, faults)


def test_a_deletion_carries_the_login_and_a_refusal_is_reported(
    served: tuple[FakeRegistry, Any],
) -> None:
    fake, registry = served
    fake.put("a", "1")
    registry._client._login = "coded"
    registry.forget("a:1", "sha256:1")
    registry._client._login = "wrong"
    with pytest.raises(registry_push.RegistryError, match="the registry wants a login"):
        registry.forget("a:1", "sha256:1")


def test_images_of_a_project_are_asked_for_below_it(served: tuple[FakeRegistry, Any]) -> None:
    fake, registry = served
    digest = fake.put("gpu/pause", "3.6")
    registry._prefix = "gpu/"
    assert registry.faults({"pause:3.6": digest}) == {}


THEIRS = {"registry": "harbor.test:443"}


def test_a_tag_of_the_organisation_is_never_replaced() -> None:
    with pytest.raises(registry_push.RegistryError, match=r"under 1 names .* first pause:3\.6"):
        registry_push.leave_alone(THEIRS, {"etcd:1": "absent", "pause:3.6": "another digest"})


def test_a_damaged_image_of_the_organisation_is_never_deleted() -> None:
    fault = f"blob sha256:{'a' * 64} is missing"
    with pytest.raises(registry_push.RegistryError, match="1 damaged images, first etcd:1"):
        registry_push.leave_alone(THEIRS, {"etcd:1": fault})


@pytest.mark.parametrize("fault", ["the registry answers 503", "the registry wants a login"])
def test_an_image_of_which_the_registry_does_not_say_whether_it_is_there_is_not_pushed(
    fault: str,
) -> None:
    with pytest.raises(registry_push.RegistryError, match="nothing was pushed"):
        registry_push.leave_alone(THEIRS, {"etcd:1": "absent", "pause:3.6": fault})


def test_absent_images_are_pushed_to_the_organisations_registry() -> None:
    registry_push.leave_alone(THEIRS, {"etcd:1": "absent"})
