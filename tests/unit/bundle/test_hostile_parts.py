"""A stick is somebody else's: an index that lies leads nowhere, and no forged part counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.parts_media import read_documents
from appliance.errors import BundleRefused
from appliance.model.bundle.carry.parts import INDEX, PARTS_MANIFEST
from tests.unit.bundle.test_parts import Media, bundle_in, flip

ZERO, ONE = "0" * 64, "1" * 64


@pytest.fixture
def media(tmp_path: Path) -> Media:
    return Media(tmp_path, bundle_in(tmp_path))


def forge(media: Media, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the index on every stick."""
    document = media.cut.index.as_json()
    change(document)
    for stick in media.sticks:
        (stick / INDEX).write_text(json.dumps(document))


def drop_part(document: dict[str, Any]) -> None:
    document["parts"].pop()


def twin_part(document: dict[str, Any]) -> None:
    document["parts"].append(document["parts"][-1])


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a part less": (drop_part, "whose sizes are not those"),
    "a part twice": (twin_part, "whose sizes are not those"),
    "another bundle": (lambda d: d.update(bundle=ONE), "belongs to bundle 111111111111"),
    "no size": (
        lambda d: d.update(part_bytes=0, parts=[{"size": 0, "sha256": ZERO}]), "part_bytes"
    ),
    "a huge size": (lambda d: d.update(part_bytes=1 << 60), "part_bytes"),
    "a way up": (lambda d: d.update(executable=["../../bin/sh"]), "executable.0"),
    "an unknown program": (lambda d: d.update(executable=["bin/other"]), "bin/other"),
    "another kind": (lambda d: d.update(kind="x"), "kind"),
    "a newer schema": (lambda d: d.update(schema=2), "it has schema 2"),
    "parts without end": (
        lambda d: d.update(parts=[{"size": 1, "sha256": ZERO}] * 1000), "parts"
    ),
    "no parts": (lambda d: d.update(parts=[]), "parts"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_an_index_that_lies_is_refused_before_anything_is_written(media: Media, name: str) -> None:
    change, words = HOSTILE[name]
    forge(media, change)
    with pytest.raises(BundleRefused) as refused:
        media.join(*media.cut.index.numbers)
    assert words in refused.value.message
    assert not media.target.exists()


def test_a_forged_part_with_its_own_digest_is_found_by_the_manifest(media: Media) -> None:
    flip(media.part(3))
    index = media.cut.index
    whole = list(index.parts)
    forged = hashlib.sha256(media.part(3).read_bytes()).hexdigest()
    whole[2] = replace(whole[2], sha256=forged)
    forge(media, lambda d: d.update(parts=[vars(part) for part in whole]))
    failed = media.fails(*index.numbers)
    assert "1 file differs from the bundle's manifest" in failed.message
    # All parts that hold bytes of it: the index cannot say which of them lies.
    assert "parts 1 to 4 have to be read again" in failed.message
    assert failed.details == ("bin/large",)


@pytest.mark.parametrize("name", [INDEX, PARTS_MANIFEST])
def test_a_medium_without_its_documents_is_refused(media: Media, name: str) -> None:
    (media.sticks[0] / name).unlink()
    with pytest.raises(BundleRefused, match=name if name == INDEX else "cannot be read"):
        media.join(1)


def test_a_manifest_that_was_exchanged_is_refused(media: Media) -> None:
    path = media.sticks[0] / PARTS_MANIFEST
    path.write_text(path.read_text() + " ")
    with pytest.raises(BundleRefused, match="belongs to bundle"):
        read_documents(media.sticks[0])
