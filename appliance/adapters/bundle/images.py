"""Checks that the image layout of a bundle is complete, as a registry client would read it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from appliance.adapters.bundle.oci import REF_NAME, referenced
from appliance.adapters.local.plain_files import read_plain
from appliance.model.bundle.faults import BundleFault
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.documents.strict_json import MOST_BYTES, read_json


def image_faults(
    directory: Path, manifest: BundleManifest, elsewhere: Collection[str] = ()
) -> tuple[BundleFault, ...]:
    """One per image missing in the index and per missing blob; a build repairs them.

    Args:
        directory: the bundle's.
        manifest: the bundle's.
        elsewhere: paths that a delta leaves out: they are not expected here.
    """
    layout = directory / "images"
    try:
        index = _document(layout / "index.json")
        indexed = {
            str(item["annotations"][REF_NAME]): str(item["digest"]) for item in index["manifests"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return (BundleFault(f"images/index.json: not a readable index of images: {error}"),)
    absent = {path.rpartition("/")[2] for path in elsewhere if path.startswith("images/blobs/")}
    return tuple(BundleFault(text) for text in _faults(layout, manifest, indexed, absent))


def _faults(
    layout: Path, manifest: BundleManifest, indexed: dict[str, str], absent: set[str]
) -> Iterator[str]:
    for name in sorted(set(indexed) | set(manifest.images)):
        found, expected = indexed.get(name), manifest.images.get(name)
        if found != expected:
            yield (
                f"image {name}: the index has {found or 'nothing'}, "
                f"expected {expected or 'nothing'}"
            )
        elif found:
            yield from (f"image {name}: {why}" for why in _missing(layout, found, absent))


def _missing(layout: Path, digest: str, absent: set[str]) -> Iterator[str]:
    if digest.removeprefix("sha256:") in absent:
        return
    path = _blob(layout, digest.removeprefix("sha256:"))
    try:
        blobs = referenced(_document(path))
    except (OSError, ValueError):
        yield f"its manifest {digest} is missing or not readable"
        return
    for blob in blobs:
        if blob.sha256 in absent:
            continue
        try:
            if _blob(layout, blob.sha256).lstat().st_size != blob.size:
                yield f"blob sha256:{blob.sha256} has another size"
        except OSError:
            yield f"blob sha256:{blob.sha256} is missing"


def _document(path: Path) -> Any:
    return read_json(read_plain(path, most_bytes=MOST_BYTES))


def _blob(layout: Path, sha256: str) -> Path:
    return layout / "blobs" / "sha256" / sha256
