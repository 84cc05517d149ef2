"""Reads a vendor bundle once, as a stream: gzip or not, of any size, in bounded memory.

Nothing is unpacked: only the manifest of each docker-archive and the Chart.yaml of each chart are
kept. The result is cached by the file's size, times and inode.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import yaml

from appliance.adapters.bundle.strict_tar import BROKEN, CHUNK, Damaged, members, plain_stream, told
from appliance.adapters.local.cache import cache_directory, recipe_key
from appliance.adapters.local.state_files import replace_file
from appliance.errors import ConfigError
from appliance.model.bundle.vendor.bundle import (
    Chart,
    Contents,
    Image,
    VendorBundle,
    chart_name,
    hostile,
    notable,
    on_disk,
    plain,
    strange,
)
from appliance.model.documents.strict_json import Unreadable, read_json

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

_MANIFEST_LIMIT = 8 << 20
_CHART_YAML_LIMIT = 256 << 10
_IMAGES_LIMIT = 10_000
_LAYERS_LIMIT = 100_000
_FAULTS_LIMIT = 20
_NAMES_LIMIT = 10_000
_RECIPE = 2


class _Hashed(io.RawIOBase):
    """A file that counts and hashes the bytes read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        self._digest.update(memoryview(buffer)[:count])
        self.count += count
        return int(count)

    def rest(self) -> str:
        """Read to the end; return the digest of the whole file."""
        piece = bytearray(CHUNK)
        while self.readinto(piece):
            pass
        return self._digest.hexdigest()


def load_vendor_bundle(path: Path) -> VendorBundle:
    """Read a bundle, or recall the cached result for this file.

    Raises:
        ConfigError: the file does not exist or cannot be read.
    """
    try:
        kept = _memory_of(path)
        known = _recall(kept)
        if known is not None:
            return VendorBundle(known)
        contents = read_contents(path)
    except OSError as error:
        raise ConfigError(
            f"the vendor bundle {path} cannot be read: {error.strerror}",
            hint="copy the vendor's runai-<version>.tar.gz there, or correct runai.vendor_bundle "
            "in site.yml",
        ) from error
    _remember(kept, contents)
    return VendorBundle(contents)


def vendor_bundle_path(site: Site) -> Path | None:
    """The path of the site's vendor bundle; a relative path starts at the site's directory."""
    runai = site.settings.runai
    if runai is None or runai.vendor_bundle is None:
        return None
    return site.directory.absolute() / Path(runai.vendor_bundle).expanduser()


def find_vendor_bundle(site: Site) -> VendorBundle | None:
    """The site's vendor bundle; None if it is not on this machine."""
    path = vendor_bundle_path(site)
    return load_vendor_bundle(path) if path is not None and path.is_file() else None


def known_vendor_bundle(site: Site) -> VendorBundle | None:
    """The cached result for the site's vendor bundle; None if it is missing or not yet read."""
    path = vendor_bundle_path(site)
    try:
        known = _recall(_memory_of(path)) if path is not None else None
    except OSError:
        return None
    return VendorBundle(known) if known is not None else None


def read_contents(path: Path) -> Contents:
    """Read the file in one pass."""
    with path.open("rb", buffering=0) as stream:
        hashed = _Hashed(stream)
        reading = _Reading()
        buffered = io.BufferedReader(hashed, CHUNK)
        try:
            reading.whole(plain_stream(cast("IO[bytes]", buffered)))
        except (Damaged, *BROKEN) as error:
            reading.fault(told(error))
        digest = hashed.rest()
    return reading.contents(path.name, hashed.count, digest)


def is_remembered(path: Path) -> bool:
    """Whether the result for this file is cached; reading a large file takes minutes."""
    return _memory_of(path).is_file()


def _memory_of(path: Path) -> Path:
    found = path.stat()
    key = recipe_key(
        {
            "recipe": _RECIPE,
            "path": str(path.resolve()),
            "state": [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino],
        }
    )
    return cache_directory() / "vendor-bundles" / f"{key}.json"


class _Reading:
    """Collects the contents of a bundle while it is read."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._files: dict[str, int] = {}
        self._charts: list[Chart] = []
        self._images: dict[Image, None] = {}
        self._archives: list[str] = []
        self._layers: dict[str, int] = {}
        self._unpacked = 0
        self._members = 0

    def whole(self, stream: IO[bytes]) -> None:
        for archive, member in members(stream):
            self._members += 1
            path = plain(member.name)
            self._judge(member)
            self._unpacked += on_disk(member.size if member.isreg() else 0)
            if member.isreg():
                if notable(path) and len(self._files) < _NAMES_LIMIT:
                    self._files[path] = member.size
                self._look_inside(archive, member, path)
        # Read the padding after the archive's end: gzip checks its checksum there.
        while stream.read(CHUNK):
            pass

    def _judge(self, member: tarfile.TarInfo) -> None:
        if member.isreg() or member.isdir():
            fault = None if plain(member.name) == "" else hostile(member.name)
        elif member.issym() or member.islnk():
            fault = hostile(member.name, member.linkname, hard=member.islnk())
        else:
            fault = f"the member {member.name!r} is a device, expected files and folders only"
        if fault:
            self.fault(fault)

    def fault(self, sentence: str) -> None:
        """Record a fault of the file, up to a limit."""
        if len(self.faults) < _FAULTS_LIMIT:
            self.faults.append(sentence)

    def _look_inside(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        named = chart_name(path)
        name = path.rpartition("/")[2]
        if named is None and not name.endswith((".tar", ".tar.gz", ".tgz")):
            return
        inside = archive.extractfile(member)
        assert inside is not None  # noqa: S101  (for the type checker: it is a regular file)
        try:
            if named:
                self._chart(inside, path)
            else:
                self._images_of(inside, path)
        except (Damaged, *BROKEN) as error:
            if isinstance(error, tarfile.ReadError) and "unexpected end" in str(error):
                raise
            what = "chart" if named else "archive"
            self.fault(f"the {what} {path} in it cannot be read: {told(error)}")

    def _chart(self, stream: IO[bytes], path: str) -> None:
        for archive, member in members(plain_stream(stream)):
            if (
                member.isreg()
                and member.name.count("/") == 1
                and (member.name.endswith("/Chart.yaml") and member.size <= _CHART_YAML_LIMIT)
            ):
                text = archive.extractfile(member)
                if chart := _chart_of(path, text.read() if text else b""):
                    self._charts.append(chart)
                    return
                break
        self.fault(f"the chart {path} in it has no readable Chart.yaml")

    def _images_of(self, stream: IO[bytes], path: str) -> None:
        """A docker-archive has a manifest.json at its root; other archives have none."""
        sizes: dict[str, int] = {}
        manifest: Any = None
        for archive, member in members(plain_stream(stream)):
            name = plain(member.name)
            if name == "manifest.json" and member.size <= _MANIFEST_LIMIT:
                text = archive.extractfile(member)
                manifest = _listed(text.read() if text else b"")
            elif member.isreg() and len(sizes) < _NAMES_LIMIT:
                sizes[name] = member.size
        if isinstance(manifest, list):
            self._archives.append(path)
            self._named(manifest, sizes, path)

    def _named(self, manifest: list[Any], sizes: dict[str, int], path: str) -> None:
        for image in manifest:
            fields = image if isinstance(image, dict) else {}
            tags, layers = _texts(fields.get("RepoTags")), _texts(fields.get("Layers"))
            config = fields.get("Config", "")
            if not fields or tags is None or layers is None or not isinstance(config, str | None):
                self.fault(f"the archive {path} in it has no valid list of images")
                return
            digest = (config or "").rpartition("/")[2].removesuffix(".json")
            for tag in tags:
                if strange(tag + digest):
                    self.fault(f"the archive {path} in it has an invalid image name {tag!r}")
                elif len(self._images) < _IMAGES_LIMIT:
                    self._images[Image(tag, digest if len(digest) == 64 else "")] = None
            for layer in layers[: _LAYERS_LIMIT - len(self._layers)]:
                self._layers[layer] = sizes.get(plain(layer), 0)

    def contents(self, name: str, size: int, sha256: str) -> Contents:
        return Contents(
            file_name=name,
            size=size,
            sha256=sha256,
            files=self._files,
            charts=tuple(self._charts),
            images=tuple(self._images),
            archives=tuple(self._archives),
            layer_bytes=sum(on_disk(size) for size in self._layers.values()),
            unpacked_bytes=self._unpacked,
            members=self._members,
            faults=tuple(self.faults),
        )


def _chart_of(path: str, content: bytes) -> Chart | None:
    """The chart of a Chart.yaml; None if it is not readable or has an invalid name."""
    try:
        data = yaml.safe_load(content)
    except (yaml.YAMLError, *BROKEN, KeyError, AttributeError):
        return None
    name, version = (data.get("name"), data.get("version")) if isinstance(data, dict) else ("", "")
    if not isinstance(name, str) or not isinstance(version, str | int | float):
        return None
    chart = Chart(path, name, str(version))
    return chart if name and version and not strange("".join(chart)) else None


def _listed(content: bytes) -> list[Any] | None:
    """The images of a docker-archive's manifest; None if it is another document.

    Raises:
        Damaged: it is not readable.
    """
    try:
        images = read_json(content)
    except Unreadable as error:
        raise Damaged(f"its manifest.json: {error}") from error
    return images if isinstance(images, list) else None


def _texts(value: Any) -> list[str] | None:
    """A list of texts, which may be absent; None if the value is anything else."""
    texts = [] if value is None else value
    is_valid = isinstance(texts, list) and all(isinstance(item, str) for item in texts)
    return texts if is_valid else None


def _recall(path: Path) -> Contents | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Contents(
            **{
                **data,
                "charts": tuple(Chart(*item) for item in data["charts"]),
                "images": tuple(Image(*item) for item in data["images"]),
                "archives": tuple(data["archives"]),
                "faults": tuple(data["faults"]),
            }
        )
    except (OSError, *BROKEN, KeyError, AttributeError):
        return None


def _remember(path: Path, contents: Contents) -> None:
    replace_file(path, json.dumps(vars(contents)))
