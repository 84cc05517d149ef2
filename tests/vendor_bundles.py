"""Vendor bundles for tests: the stand-in's with tiny images, and broken ones made from it."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

from appliance.lab.vendor.bundle import Ingredients, StandinImage, write_vendor_bundle
from appliance.model.bundle.vendor.bundle import Chart, Contents, Image, VendorBundle

NAMES = (
    *("backend-standin", "postgresql-standin", "agent-standin"),
    *("scheduler-standin", "scheduler-controller-standin"),
)


GB = 1_000_000_000


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a bundle that a test made, with tarfile's filter where Python has it (3.11.4 on)."""
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)  # noqa: S202 - written by the test itself


def judged(version: str, **changes: Any) -> VendorBundle:
    """A bundle as if it had been read, with two charts and nothing wrong; no file behind it."""
    charts = changes.pop("charts", ("runai-backend", "runai-cluster"))
    fields: dict[str, Any] = {
        "file_name": f"runai-{version}.tar",
        "size": GB,
        "sha256": "ab" * 32,
        "files": {"deploy/prepare_installation.sh": 1, "deploy/runai-adm": 1},
        "charts": tuple(Chart(f"deploy/{name}-{version}.tgz", name, version) for name in charts),
        "images": (Image(f"gcr.io/run-ai-prod/backend:{version}", "cd" * 32),),
        "unpacked_bytes": GB,
        "layer_bytes": GB,
    }
    return VendorBundle(Contents(**{**fields, **changes}))


def tiny_images(folder: Path) -> tuple[StandinImage, ...]:
    """Images of one small layer, which they share, and a configuration each."""
    folder.mkdir(parents=True, exist_ok=True)
    layer = b"layer" * 2000
    sha256 = hashlib.sha256(layer).hexdigest()
    (folder / sha256).write_bytes(layer)
    found = []
    for name in NAMES:
        config = json.dumps({"of": name}).encode()
        digest = hashlib.sha256(config).hexdigest()
        (folder / digest).write_bytes(config)
        found.append(StandinImage(name, folder / digest, digest, ((sha256, folder / sha256),)))
    return tuple(found)


def tiny_bundle(version: str, folder: Path, *, compressed: bool = False) -> Path:
    """A whole bundle of some kilobytes."""
    parts = Ingredients(images=tiny_images(folder / "images"))
    return write_vendor_bundle(version, folder, parts, compressed=compressed)


def without(path: Path, *names: str) -> Path:
    """The same bundle without some members."""
    thin = path.with_name(f"thin-{path.name}")
    with tarfile.open(path) as whole, tarfile.open(thin, "w") as archive:
        for member in whole:
            if member.name.rpartition("/")[2] not in names:
                archive.addfile(member, whole.extractfile(member) if member.isreg() else None)
    return thin


def with_member(path: Path, member: tarfile.TarInfo, content: bytes = b"") -> Path:
    """The same bundle with one more member."""
    more = path.with_name(f"more-{path.name}")
    member.size = len(content)
    with tarfile.open(path) as whole, tarfile.open(more, "w") as archive:
        for known in whole:
            archive.addfile(known, whole.extractfile(known) if known.isreg() else None)
        archive.addfile(member, io.BytesIO(content))
    return more


def with_hole(path: Path, size: int) -> Path:
    """The same bundle with one more member, of zeros, which take no space on this machine."""
    large = path.with_name(f"large-{path.name}")
    member = tarfile.TarInfo("deploy/hole")
    member.size = size
    with tarfile.open(path) as whole, large.open("wb") as raw:
        for known in whole:
            raw.write(known.tobuf(tarfile.GNU_FORMAT))
            if known.isreg():
                content = whole.extractfile(known)
                assert content is not None
                shutil.copyfileobj(content, raw)
                raw.write(bytes(-known.size % tarfile.BLOCKSIZE))
        raw.write(member.tobuf(tarfile.GNU_FORMAT))
        # Two blocks of zeros end an archive; the hole gives them, too.
        raw.truncate(raw.tell() + (-(-size // tarfile.BLOCKSIZE) + 2) * tarfile.BLOCKSIZE)
    return large
