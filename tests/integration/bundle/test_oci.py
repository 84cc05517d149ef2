"""Images from a registry that speaks the distribution API, and layouts written here."""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.oci import Blob
from appliance.builder.sources.oci.layout import (
    INDEX_TYPE,
    MANIFEST_TYPE,
    Entry,
    ImageSettings,
    blob_of,
    canonical,
    image_config,
    image_manifest,
    layout_index,
    write_layer,
)
from appliance.builder.sources.oci.registry import Oci
from appliance.builder.sources.source import Context
from appliance.errors import SourceUnavailable
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import OciSource
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
    fetched = Oci().fetch(*registry.artifact(), context)
    assert fetched.image == blob_of(registry.manifest).sha256
    assert (fetched.verified, fetched.media_type) == ("never", MANIFEST_TYPE)
    assert fetched.learned == (registry.reference, registry.digest.removeprefix("sha256:"))
    assert {file.path for file in fetched.files} == {
        f"images/blobs/sha256/{blob_of(content).sha256}"
        for content in (LAYER, CONFIG, registry.manifest)
    }
    assert all(context.cache.holds(file.sha256, file.size) for file in fetched.files)


def test_a_registry_that_wants_a_token_gets_one(web: Web, context: Context) -> None:
    registry = Registry(web)
    web.token = str(len(LAYER))
    Oci().fetch(*registry.artifact(), context)
    asked = [path for path in web.asked if path.startswith("/token")]
    assert asked == ["/token?service=test&scope=repository%3Ateam%2Fweb%3Apull"]


def test_an_image_is_fetched_once(web: Web, context: Context) -> None:
    registry = Registry(web)
    first = Oci().fetch(*registry.artifact(), context)
    web.asked.clear()
    assert Oci().fetch(*registry.artifact(), context) == first
    assert web.asked == []


def test_the_digest_of_the_release_or_of_the_lock_vouches(web: Web, context: Context) -> None:
    registry = Registry(web)
    assert Oci().fetch(*registry.artifact(registry.digest), context).verified == "digest"
    locked = replace(context, locked={registry.reference: registry.digest.removeprefix("sha256:")})
    assert Oci().fetch(*registry.artifact(), locked).verified == "lock"


def test_another_image_than_the_digest_names_is_refused(web: Web, context: Context) -> None:
    registry = Registry(web)
    wrong = f"sha256:{'0' * 64}"
    web.pages[f"/v2/team/web/manifests/{wrong}"] = (INDEX_TYPE, registry.index)
    with pytest.raises(SourceUnavailable, match="expected sha256:0000"):
        Oci().fetch(*registry.artifact(wrong), context)


def test_a_damaged_layer_is_refused_and_forgotten(web: Web, context: Context) -> None:
    registry = Registry(web)
    path = f"/v2/team/web/blobs/sha256:{blob_of(LAYER).sha256}"
    web.pages[path] = ("application/octet-stream", LAYER[:-1] + b"!")
    with pytest.raises(SourceUnavailable, match="is damaged"):
        Oci().fetch(*registry.artifact(), context)
    web.pages[path] = ("application/octet-stream", LAYER)
    Oci().fetch(*registry.artifact(), context)


def test_a_missing_image_and_a_missing_architecture_are_reported(
    web: Web, context: Context
) -> None:
    registry = Registry(web)
    with pytest.raises(SourceUnavailable, match="no variant for s390x"):
        Oci().fetch(*registry.artifact(), replace(context, architecture="s390x"))
    del web.pages["/v2/team/web/manifests/v1"]
    with pytest.raises(SourceUnavailable, match="answers 404"):
        Oci().fetch(*registry.artifact(), context)


HOSTILE_DIGESTS = ("sha256:../../../victim", "sha256:" + "A" * 64, "../victim", "", 5, None)


@pytest.mark.parametrize("digest", HOSTILE_DIGESTS, ids=repr)
def test_a_digest_that_is_a_path_names_no_file(
    web: Web, context: Context, tmp_path: Path, digest: object
) -> None:
    registry = Registry(web)
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    # The folder of downloads is three below the temporary one.
    layer = {"mediaType": "x", "digest": digest, "size": 4}
    config = blob_of(CONFIG).descriptor("x")
    content = canonical({"schemaVersion": 2, "config": config, "layers": [layer]})
    web.pages["/v2/team/web/manifests/v1"] = (MANIFEST_TYPE, content)
    web.pages["/v2/team/web/blobs/sha256:../../../victim"] = ("x", b"more")
    with pytest.raises(SourceUnavailable, match="sha256 digest"):
        Oci().fetch(*registry.artifact(), context)
    assert victim.read_text() == "theirs"


@pytest.mark.parametrize(
    "content",
    [b"", b"[" * 100_000, b"[]", b"{}", b'{"config": 5, "layers": [5]}', b" " * ((8 << 20) + 1)],
    ids=lambda content: repr(content)[:12],
)
@pytest.mark.parametrize("kind", [MANIFEST_TYPE, INDEX_TYPE])
def test_what_is_no_manifest_is_a_source_that_does_not_work(
    web: Web, context: Context, content: bytes, kind: str
) -> None:
    registry = Registry(web)
    web.pages["/v2/team/web/manifests/v1"] = (kind, content)
    with pytest.raises(SourceUnavailable):
        Oci().fetch(*registry.artifact(), context)


def test_the_manifest_that_an_index_names_is_compared_with_its_digest(
    web: Web, context: Context
) -> None:
    registry = Registry(web)
    path = f"/v2/team/web/manifests/sha256:{blob_of(registry.manifest).sha256}"
    other = image_manifest(blob_of(CONFIG), [])
    web.pages[path] = (MANIFEST_TYPE, other)
    with pytest.raises(SourceUnavailable, match="has another manifest under"):
        Oci().fetch(*registry.artifact(registry.digest), context)


def test_a_layer_larger_than_its_manifest_says_is_cut_off(web: Web, context: Context) -> None:
    registry = Registry(web)
    path = f"/v2/team/web/blobs/sha256:{blob_of(LAYER).sha256}"
    web.pages[path] = ("application/octet-stream", LAYER * 100)
    with pytest.raises(SourceUnavailable, match=f"larger than {len(LAYER)} bytes"):
        Oci().fetch(*registry.artifact(), context)


@pytest.mark.parametrize("realm", ["file:///etc/passwd", "ftp://e.test/token", "http://e.test/t"])
def test_a_token_is_asked_for_at_no_other_kind_of_place(
    web: Web, context: Context, realm: str
) -> None:
    registry = Registry(web)
    web.token, web.realm = "secret", realm
    with pytest.raises(SourceUnavailable, match="names an invalid token server"):
        Oci().fetch(*registry.artifact(), context)


@pytest.mark.parametrize("token", ["a\\r\\nX-Evil: 1", "a b"])
def test_a_token_that_is_none_is_refused(web: Web, context: Context, token: str) -> None:
    registry = Registry(web)
    web.token = token
    with pytest.raises(SourceUnavailable, match="gives no token"):
        Oci().fetch(*registry.artifact(), context)


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
