"""The registry's images as its storage holds them, whole and half pushed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.probe import recorded

STORAGE = "var/lib/docker-registry/docker/registry/v2"


class Storage:
    """Writes images the way docker-registry does."""

    def __init__(self, root: Path) -> None:
        self.base = root / STORAGE
        self.root = root

    def blob(self, content: bytes, repository: str) -> str:
        digest = hashlib.sha256(content).hexdigest()
        self.write(f"blobs/sha256/{digest[:2]}/{digest}/data", content)
        link = f"repositories/{repository}/_layers/sha256/{digest}/link"
        self.write(link, f"sha256:{digest}".encode())
        return f"sha256:{digest}"

    def image(self, name: str, tag: str, layers: list[bytes]) -> str:
        config = b'{"config": 1}'
        manifest = {
            "schemaVersion": 2,
            "config": {"digest": self.blob(config, name), "size": len(config)},
            "layers": [{"digest": self.blob(layer, name), "size": len(layer)} for layer in layers],
        }
        digest = self.blob(json.dumps(manifest).encode(), name)
        self.tag(name, tag, digest)
        return digest

    def tag(self, name: str, tag: str, digest: str) -> None:
        self.write(f"repositories/{name}/_manifests/tags/{tag}/current/link", digest.encode())

    def write(self, name: str, content: bytes) -> None:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def data(self, digest: str) -> Path:
        return self.base / f"blobs/sha256/{digest[7:9]}/{digest[7:]}/data"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(recorded.machine({"machine": "bare-debian-12"}, tmp_path)[0])


def _registry(storage: Storage) -> dict[str, Any]:
    found: dict[str, Any] = recorded.look(storage.root, storage.root.parent / "outputs")["registry"]
    return found


def test_images_with_plain_and_nested_names_are_listed_with_their_digests(storage: Storage) -> None:
    pause = storage.image("pause", "3.6", [b"pause"])
    flannel = storage.image("mirror/flannel", "v0.19.2", [b"a", b"b"])
    found = _registry(storage)
    assert found["images"] == {"pause:3.6": pause, "mirror/flannel:v0.19.2": flannel}
    assert found["missing_blobs"] == []


def _lose(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [_lose, _cut])
@pytest.mark.parametrize("what", ["layer", "manifest"])
def test_a_blob_that_is_gone_or_cut_short_is_missing(
    storage: Storage, damage: Callable[[Path], None], what: str
) -> None:
    manifest = storage.image("pause", "3.6", [b"the layer"])
    layer = "sha256:" + hashlib.sha256(b"the layer").hexdigest()
    digest = layer if what == "layer" else manifest
    damage(storage.data(digest))
    found = _registry(storage)
    assert found["images"] == {"pause:3.6": manifest}
    assert found["missing_blobs"] == [digest]


def test_a_layer_that_the_repository_does_not_link_would_not_be_served(storage: Storage) -> None:
    storage.image("pause", "3.6", [b"the layer"])
    digest = hashlib.sha256(b"the layer").hexdigest()
    (storage.base / f"repositories/pause/_layers/sha256/{digest}/link").unlink()
    assert _registry(storage)["missing_blobs"] == [f"sha256:{digest}"]


def test_an_index_is_followed_to_its_manifests(storage: Storage) -> None:
    inner = storage.image("many", "inner", [b"x"])
    index = json.dumps({"schemaVersion": 2, "manifests": [{"digest": inner}]}).encode()
    storage.tag("many", "v1", storage.blob(index, "many"))
    storage.data("sha256:" + hashlib.sha256(b"x").hexdigest()).unlink()
    assert len(_registry(storage)["missing_blobs"]) == 1


def test_a_tag_without_a_digest_is_no_image(storage: Storage) -> None:
    storage.tag("pause", "3.6", "")
    assert _registry(storage)["images"] == {}
