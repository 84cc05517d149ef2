"""OCI images as files: layers, configurations, manifests and the layout's index, in pure Python.

The same entries give the same bytes on every machine: sorted, owned by root, dated 1970, and not
compressed, because compressors differ and compression does not make nodes faster. What must not be
here: the sources of an image's files.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal

from appliance.adapters.bundle.oci import REF_NAME, Blob

LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
_EPOCH = "1970-01-01T00:00:00Z"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Entry:
    """One path in a layer.

    Attributes:
        path: absolute path in the image.
        target: the target of a link.
        source: the file with the content; if None, ``content`` is used.
    """

    path: str
    kind: Literal["file", "directory", "symlink", "hardlink"]
    mode: int = 0o755
    target: str = ""
    source: Path | None = None
    content: bytes = b""

    @property
    def name(self) -> str:
        """The path as a tar member's name."""
        return self.path.strip("/")


@dataclass(frozen=True)
class ImageSettings:
    """The settings with which an image starts."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    architecture: str = "amd64"


class HashingWriter(io.RawIOBase):
    """Writes bytes to a file and hashes them."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._hash = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        """Always true."""
        return True

    def write(self, data: Any) -> int:
        """Write and hash."""
        self._hash.update(data)
        self.size += len(data)
        return self._target.write(data)

    @property
    def blob(self) -> Blob:
        """The blob of the bytes written so far."""
        return Blob(self._hash.hexdigest(), self.size)


def write_layer(destination: Path, entries: Iterable[Entry]) -> Blob:
    """Write a layer; missing parent folders are added, a later entry of a path wins."""
    by_name = {entry.name: entry for entry in entries if entry.name}
    for name in list(by_name):
        for parent in PurePosixPath(name).parents:
            if str(parent) != ".":
                by_name.setdefault(str(parent), Entry(f"/{parent}", "directory"))
    with destination.open("wb") as raw:
        sink = HashingWriter(raw)
        with tarfile.open(fileobj=sink, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            # A hard link must come after its target.
            for name in sorted(by_name, key=lambda name: (by_name[name].kind == "hardlink", name)):
                _add(archive, by_name[name])
        return sink.blob


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    member = tarfile.TarInfo(entry.name)
    member.mode = entry.mode
    member.type = {
        "file": tarfile.REGTYPE,
        "directory": tarfile.DIRTYPE,
        "symlink": tarfile.SYMTYPE,
        "hardlink": tarfile.LNKTYPE,
    }[entry.kind]
    if entry.kind != "file":
        member.linkname = entry.target.lstrip("/") if entry.kind == "hardlink" else entry.target
        archive.addfile(member)
    elif entry.source is None:
        member.size = len(entry.content)
        archive.addfile(member, io.BytesIO(entry.content))
    else:
        with entry.source.open("rb") as stream:
            member.size = os.fstat(stream.fileno()).st_size
            archive.addfile(member, stream)


def image_config(layers: Sequence[Blob], settings: ImageSettings) -> bytes:
    """The configuration blob of an image whose layers are not compressed."""
    environment = [_PATH, *(f"{key}={value}" for key, value in settings.environment.items())]
    config: dict[str, Any] = {"Env": environment}
    if settings.entrypoint:
        config["Entrypoint"] = list(settings.entrypoint)
    if settings.command:
        config["Cmd"] = list(settings.command)
    return canonical(
        {
            "architecture": settings.architecture,
            "os": "linux",
            "created": _EPOCH,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{b.sha256}" for b in layers]},
            "history": [{"created": _EPOCH, "created_by": "appliance"} for _ in layers],
        }
    )


def image_manifest(config: Blob, layers: Sequence[Blob]) -> bytes:
    """The manifest of an image whose layers are not compressed."""
    return canonical(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": config.descriptor(CONFIG_TYPE),
            "layers": [layer.descriptor(LAYER_TYPE) for layer in layers],
        }
    )


def layout_index(manifests: Mapping[str, tuple[Blob, str]]) -> bytes:
    """The index of a layout: ``name:tag`` -> its manifest's blob and media type."""
    return canonical(
        {
            "schemaVersion": 2,
            "mediaType": INDEX_TYPE,
            "manifests": [
                {
                    **blob.descriptor(media_type),
                    "annotations": {REF_NAME: name},
                    "platform": {"architecture": "amd64", "os": "linux"},
                }
                for name, (blob, media_type) in sorted(manifests.items())
            ],
        }
    )


def blob_of(content: bytes) -> Blob:
    """The blob of some bytes."""
    return Blob(hashlib.sha256(content).hexdigest(), len(content))


def canonical(value: object) -> bytes:
    """JSON with the same bytes on every machine."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
