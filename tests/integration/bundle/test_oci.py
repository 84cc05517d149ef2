"""Images from a registry that speaks the distribution API, and layouts written here."""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.artifacts import Context
from appliance.adapters.artifacts.oci import Oci
from appliance.adapters.artifacts.oci_layout import (
    INDEX_TYPE,
    MANIFEST_TYPE,
    Blob,
    Entry,
    ImageSettings,
    blob_of,
    canonical,
    image_config,
    image_manifest,
    layout_index,
    write_layer,
)
from appliance.errors import SourceUnavailable
from appliance.model.release import Artifact
from appliance.model.sources import OciSource
from tests.integration.bundle.web import Web

LAYER = b"a layer" * 100
CONFIG = b'{"os":"linux"}'


class Registry:
    """One image, for two architectures, in a registry."""

    def __init__(self, web: Web) -> None:
        self.manifest = image_manifest(blob_of(CONFIG), [blob_of(LAYER)])
        variants = [
            self._variant("arm64", blob_of(b"other")),
            self._variant("amd64", blob_of(self.manifest)),
        ]
        self.index = canonical({"schemaVersion": 2, "manifests": variants})
        self.digest = f"sha256:{blob_of(self.index).sha256}"
        for content in (LAYER, CONFIG):
            path = f"/v2/team/web/blobs/sha256:{blob_of(content).sha256}"
            web.pages[path] = ("application/octet-stream", content)
        for name in ("v1", self.digest):
            web.pages[f"/v2/team/web/manifests/{name}"] = (INDEX_TYPE, self.index)
        path = f"/v2/team/web/manifests/sha256:{blob_of(self.manifest).sha256}"
        web.pages[path] = (MANIFEST_TYPE, self.manifest)
        self.reference = f"{web.base.removeprefix('http://')}/team/web:v1"

    @staticmethod
    def _variant(architecture: str, blob: Blob) -> dict[str, Any]:
        platform = {"os": "linux", "architecture": architecture}
        return {**blob.descriptor(MANIFEST_TYPE), "platform": platform}

    def artifact(self, digest: str | None = None) -> tuple[Artifact, OciSource]:
        spec = OciSource(kind="oci", reference=self.reference, digest=digest)
        image = Artifact(name="web", kind="image", version="1", image="web:v1", sources=(spec,))
        return image, spec


def test_the_variant_of_the_architecture_is_taken_whole(web: Web, context: Context) -> None:
    registry = Registry(web)
    taken = Oci().take(*registry.artifact(), context)
    assert taken.image == blob_of(registry.manifest).sha256
    assert (taken.verified, taken.media_type) == ("never", MANIFEST_TYPE)
    assert taken.learned == (registry.reference, registry.digest.removeprefix("sha256:"))
    assert {file.path for file in taken.files} == {
        f"images/blobs/sha256/{blob_of(content).sha256}"
        for content in (LAYER, CONFIG, registry.manifest)
    }
    assert all(context.cache.holds(file.sha256, file.size) for file in taken.files)


def test_a_registry_that_wants_a_token_gets_one(web: Web, context: Context) -> None:
    registry = Registry(web)
    web.token = str(len(LAYER))
    Oci().take(*registry.artifact(), context)
    asked = [path for path in web.asked if path.startswith("/token")]
    assert asked == ["/token?service=test&scope=repository%3Ateam%2Fweb%3Apull"]


def test_an_image_is_fetched_once(web: Web, context: Context) -> None:
    registry = Registry(web)
    first = Oci().take(*registry.artifact(), context)
    web.asked.clear()
    assert Oci().take(*registry.artifact(), context) == first
    assert web.asked == []


def test_the_digest_of_the_release_or_of_the_lock_vouches(web: Web, context: Context) -> None:
    registry = Registry(web)
    assert Oci().take(*registry.artifact(registry.digest), context).verified == "digest"
    locked = replace(context, locked={registry.reference: registry.digest.removeprefix("sha256:")})
    assert Oci().take(*registry.artifact(), locked).verified == "lock"


def test_another_image_than_the_digest_names_is_refused(web: Web, context: Context) -> None:
    registry = Registry(web)
    wrong = f"sha256:{'0' * 64}"
    web.pages[f"/v2/team/web/manifests/{wrong}"] = (INDEX_TYPE, registry.index)
    with pytest.raises(SourceUnavailable, match="expected sha256:0000"):
        Oci().take(*registry.artifact(wrong), context)


def test_a_damaged_layer_is_refused_and_forgotten(web: Web, context: Context) -> None:
    registry = Registry(web)
    path = f"/v2/team/web/blobs/sha256:{blob_of(LAYER).sha256}"
    web.pages[path] = ("application/octet-stream", LAYER[:-1] + b"!")
    with pytest.raises(SourceUnavailable, match="was damaged"):
        Oci().take(*registry.artifact(), context)
    web.pages[path] = ("application/octet-stream", LAYER)
    Oci().take(*registry.artifact(), context)


def test_a_missing_image_and_a_missing_architecture_are_told(web: Web, context: Context) -> None:
    registry = Registry(web)
    with pytest.raises(SourceUnavailable, match="no variant for s390x"):
        Oci().take(*registry.artifact(), replace(context, architecture="s390x"))
    del web.pages["/v2/team/web/manifests/v1"]
    with pytest.raises(SourceUnavailable, match="answers 404"):
        Oci().take(*registry.artifact(), context)


def test_a_layer_is_the_same_whatever_the_order_of_its_entries(tmp_path: Path) -> None:
    entries = [
        Entry("/usr/bin/tool", "file", content=b"tool"),
        Entry("/usr/bin/alias", "symlink", 0o777, target="tool"),
        Entry("/usr/bin/again", "hardlink", target="/usr/bin/tool"),
        Entry("/shared", "directory", 0o1777),
    ]
    one = write_layer(tmp_path / "one", entries)
    assert write_layer(tmp_path / "two", reversed(entries)) == one
    assert one.sha256 == hashlib.sha256((tmp_path / "one").read_bytes()).hexdigest()
    with tarfile.open(tmp_path / "one") as archive:
        members = archive.getmembers()
    assert [m.name for m in members] == [
        "shared", "usr", "usr/bin", "usr/bin/alias", "usr/bin/tool", "usr/bin/again",
    ]  # fmt: skip
    assert {(m.uid, m.gid, m.mtime) for m in members} == {(0, 0, 0)}
    assert members[0].mode == 0o1777
    assert members[-1].linkname == "usr/bin/tool"


def test_an_image_says_how_it_is_started() -> None:
    settings = ImageSettings(["/tool"], ["--help"], {"KEY": "value"})
    config = json.loads(image_config([blob_of(LAYER)], settings))
    assert config["config"]["Entrypoint"] == ["/tool"]
    assert config["config"]["Cmd"] == ["--help"]
    assert "KEY=value" in config["config"]["Env"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{blob_of(LAYER).sha256}"]


def test_the_index_names_each_image_without_a_registry() -> None:
    index = json.loads(layout_index({"web:v1": (blob_of(b"m"), MANIFEST_TYPE)}))
    (entry,) = index["manifests"]
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "web:v1"}
    assert entry["digest"] == f"sha256:{blob_of(b'm').sha256}"
