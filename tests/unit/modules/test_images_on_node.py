"""Images of a registry on loopback: what its node gives to a backup, and takes from one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.model.backup.answer import NodeAnswer, read_answer
from appliance.model.backup.restoring.images import SavedImages, read_images
from appliance.model.documents.strict_json import Unreadable
from tests.unit.modules.image_registry import (
    MANIFEST,
    Registry,
    ServicesNode,
    filled,
    restoring,
    saving,
)
from tests.unit.modules.test_registry_push import digest_of

BASE = digest_of(b"base layer" * 50_000)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServicesNode]:
    registry = filled()
    with registry.served(tmp_path):
        yield ServicesNode(registry, tmp_path, monkeypatch)


def taken(sent: bytes) -> tuple[NodeAnswer, dict[str, bytes]]:
    """The answer, and part -> content."""
    line, _, rest = sent.partition(b"\n")
    answer, found = read_answer(line, "services", ["images"]), {}
    for part in answer.parts:
        found[part.name], rest = rest[: part.size], rest[part.size :]
    assert rest == b""
    return answer, found


def wanted(contents: dict[str, bytes]) -> tuple[dict[str, Any], bytes]:
    """What a restore of everything asks for, and sends."""
    saved = read_images(contents["images/images.json"])
    blobs = {name[-64:]: one for name, one in contents.items() if "/blobs/" in name}
    listed = [
        {"name": i.name, "digest": i.digest, "media_type": i.media_type, "size": i.size}
        for i in saved.images
    ]
    sizes = [(name, len(one)) for name, one in blobs.items()]
    line = json.dumps({"blobs": sizes, "listed": listed}).encode() + b"\n"
    return {"act": "load", "folder": "a-backup-images"}, line + b"".join(blobs.values())


def faults_of(node: ServicesNode, saved: SavedImages) -> dict[str, str]:
    line = json.dumps({"images": {one.name: one.digest for one in saved.images}}).encode()
    found: dict[str, str] = node.act({"act": "look"}, line)["faults"]
    return found


def test_every_image_is_sent_and_each_blob_once(node: ServicesNode) -> None:
    answer, found = taken(node.sent())
    names = [part.name for part in answer.parts]
    assert len(set(names)) == len(names)
    assert answer.missing == ()
    saved = read_images(found["images/images.json"])
    assert {one.name: one.digest for one in saved.images} == node.registry.images()
    for name, content in found.items():
        if "/blobs/" in name:
            assert hashlib.sha256(content).hexdigest() == name[-64:]
    assert node.registry.given[BASE] == 1


def test_the_forecast_is_what_comes(node: ServicesNode) -> None:
    told = node.look()
    answer, _ = taken(node.sent())
    blobs = [part for part in answer.parts if "/blobs/" in part.name]
    assert told["blobs"] == len(blobs)
    assert told["bytes"] == sum(part.size for part in blobs)
    assert (told["images"], told["faults"]) == (5, {})


def test_a_connection_that_breaks_is_resumed_where_it_was(node: ServicesNode) -> None:
    node.registry.breaks[BASE] = 200_000
    _, found = taken(node.sent())
    assert found[f"images/blobs/{BASE.replace(':', '/')}"] == node.registry.blobs[BASE]
    assert node.registry.given[BASE] == 3


@pytest.mark.parametrize("gives", [0, 10])
def test_a_blob_that_stops_coming_costs_its_own_part_alone(
    gives: int, node: ServicesNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each connection gives a few bytes."""
    monkeypatch.setattr("ansible.module_utils.appliance_registry.MOST_RESUMED", 5)
    node.registry.breaks[BASE] = gives
    answer, found = taken(node.sent())
    other = [p for p in answer.parts if hashlib.sha256(found[p.name]).hexdigest() != p.sha256]
    assert [part.sha256 for part in other] == [BASE.partition(":")[2]]


def test_a_registry_that_stops_answering_ends_it(
    node: ServicesNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros for all that is left would take hours."""
    monkeypatch.setattr(saving, "MOST_LOST", 1)
    node.registry.breaks = dict.fromkeys(node.registry.blobs, 0)
    with pytest.raises(OSError, match="the registry gives its blobs no more"):
        node.sent()


def broken(registry: Registry) -> dict[str, str]:
    """Image -> a word of its fault, after each way in which one can be damaged."""
    del registry.blobs[digest_of(b"another")]
    train = registry.images()["team/train:1"]
    content, kind = registry.manifests["team/train", train]
    registry.manifests["team/train", train] = (content + b" ", kind)
    del registry.manifests["multi", registry.images()["multi:amd64"]]
    other = json.dumps({"layers": [{"digest": "sha256:../../etc", "size": 1}]}).encode()
    registry.put_manifest("strange:1", other, MANIFEST)
    registry.put_manifest("strange:2", b'{"layers": []}', "text/html")
    return {
        "team/train:2": "is missing", "team/train:1": "gives another manifest",
        "multi:1": "404", "multi:amd64": "is no sha256 digest", "strange:1": "is no sha256 digest",
        "strange:2": "none of an image",
    }  # fmt: skip


def test_what_is_not_whole_in_the_registry_is_named_and_the_rest_is_sent(
    node: ServicesNode,
) -> None:
    faults = broken(node.registry)
    answer, found = taken(node.sent())
    missing = {one.what.removeprefix("images/"): one.why for one in answer.missing}
    assert set(missing) == set(faults)
    for name, word in faults.items():
        assert word in missing[name]
    saved = read_images(found["images/images.json"])
    assert [one.name for one in saved.images] == ["pause:3.6"]


def test_a_registry_that_is_away_is_told_and_nothing_is_sent(node: ServicesNode) -> None:
    node.registry.address = "127.0.0.1:1"
    answer, found = taken(node.sent())
    assert found == {}
    assert "does not answer" in answer.missing[0].why


def test_a_blob_under_another_digest_is_not_taken_from_a_node() -> None:
    part = {"name": "images/blobs/sha256/" + "a" * 64, "size": 1, "sha256": "b" * 64}
    with pytest.raises(Unreadable, match="another sha256 than its name"):
        read_answer(json.dumps({"parts": [part]}).encode(), "services", ["images"])


def test_a_lost_registry_gets_all_of_it_back(node: ServicesNode) -> None:
    before = node.registry.images()
    _, found = taken(node.sent())
    node.registry.forget()
    told = node.act(*wanted(found))
    assert node.registry.images() == before
    assert (told["pushed"], told["others"]) == (sorted(before), [])
    assert faults_of(node, read_images(found["images/images.json"])) == {}
    assert list(restoring.appliance_backup_folder.PLACE.iterdir()) == []


def test_only_what_is_lacking_is_pushed_and_another_image_of_the_name_stays(
    node: ServicesNode,
) -> None:
    _, found = taken(node.sent())
    del node.registry.tags["pause"]
    newer = node.registry.put("team/train:1", b"newer")
    told = node.act(*wanted(found))
    assert told == {"pushed": ["pause:3.6"], "others": ["team/train:1"]}
    assert node.registry.images()["team/train:1"] == newer
    assert node.pushes == ["pause:3.6"]


def test_a_damaged_image_is_pushed_anew(node: ServicesNode) -> None:
    _, found = taken(node.sent())
    del node.registry.blobs[digest_of(b"another")]
    faults = faults_of(node, read_images(found["images/images.json"]))
    assert set(faults) == {"team/train:2"}
    assert node.act(*wanted(found))["pushed"] == ["team/train:2"]
    assert faults_of(node, read_images(found["images/images.json"])) == {}


@pytest.mark.parametrize("fault", ["cut", "changed", "a name", "no room", "a long list"])
def test_what_comes_otherwise_than_announced_is_not_pushed(
    fault: str, node: ServicesNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = taken(node.sent())
    node.registry.forget()
    want, given = wanted(found)
    line, _, rest = given.partition(b"\n")
    if fault == "cut":
        given = given[:-10]
    elif fault == "changed":
        given = line + b"\n" + rest.replace(b"own layer", b"OWN layer", 1)
    elif fault == "a name":
        told = json.loads(line)
        told["blobs"][0][0] = "../../../../etc/cron.d/x"
        given = json.dumps(told).encode() + b"\n" + rest
    elif fault == "no room":
        monkeypatch.setattr(restoring, "RESERVE", 1 << 62)
    else:
        monkeypatch.setattr(restoring, "MOST_LINE_BYTES", 100)
    with pytest.raises(restoring.RestoreError):
        node.act(want, given)
    assert node.registry.images() == {}
    place = restoring.appliance_backup_folder.PLACE
    assert not place.exists() or list(place.iterdir()) == []
