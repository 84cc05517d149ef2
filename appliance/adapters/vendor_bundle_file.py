"""Reads a vendor bundle once, as a stream: gzip or not, of any size, in bounded memory.

Nothing is unpacked. Of each docker-archive inside only its manifest is kept, of each chart its
Chart.yaml. What was read is remembered by the file's size, times and inode.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import yaml

from appliance.adapters.cache import cache_directory, recipe_key
from appliance.errors import ConfigError
from appliance.model.vendor_bundle import (
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

if TYPE_CHECKING:
    from appliance.model.site import Site

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_MANIFEST_LIMIT = 8 << 20
_CHART_YAML_LIMIT = 1 << 20
_FAULTS_LIMIT = 20
_NAMES_LIMIT = 10_000
_RECIPE = 1
_BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


# Not in its documentation, and the only way to tell these from an end.
_TARFILE: Any = tarfile
_EARLY_END = (_TARFILE.EmptyHeaderError, _TARFILE.TruncatedHeaderError)
_NO_HEADER = (_TARFILE.InvalidHeaderError, _TARFILE.SubsequentHeaderError)


class Damaged(Exception):
    """The tar ends early, or holds what is no tar."""


class _StrictInfo(tarfile.TarInfo):
    """Tells an end from a break; tarfile takes a missing or broken header for the end."""

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> Any:
        try:
            return super().fromtarfile(tarfile)
        except _EARLY_END as error:
            raise Damaged("it ends in the middle: it is truncated") from error
        except _NO_HEADER as error:
            if tarfile.offset == 0:
                raise Damaged("it is no tar archive") from error
            raise Damaged(f"it is damaged at byte {tarfile.offset}") from error


class _Hashed(io.RawIOBase):
    """A file that is hashed and counted while it is read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        self._digest.update(memoryview(buffer)[:got])
        self.count += got
        return int(got)

    def rest(self) -> str:
        """Read to the end; the digest of everything."""
        piece = bytearray(_CHUNK)
        while self.readinto(piece):
            pass
        return self._digest.hexdigest()


def load_vendor_bundle(path: Path) -> VendorBundle:
    """Read a bundle, or recall what was read of this very file before.

    Raises:
        ConfigError: it is not there or can not be read.
    """
    try:
        kept = _memory_of(path)
        known = _recall(kept)
        if known is not None:
            return VendorBundle(known)
        contents = read_contents(path)
    except OSError as error:
        raise ConfigError(
            f"the vendor bundle {path} can not be read: {error.strerror}",
            hint="put the vendor's runai-<version>.tar.gz there, or correct runai.vendor_bundle in "
            "site.yml",
        ) from error
    _remember(kept, contents)
    return VendorBundle(contents)


def vendor_bundle_path(site: Site) -> Path | None:
    """Where the site says that its bundle is; from the site's directory when it is not absolute."""
    wanted = site.settings.runai
    if wanted is None or wanted.vendor_bundle is None:
        return None
    return site.directory.absolute() / Path(wanted.vendor_bundle).expanduser()


def find_vendor_bundle(site: Site) -> VendorBundle | None:
    """The site's bundle; None when it is not on this machine."""
    path = vendor_bundle_path(site)
    return load_vendor_bundle(path) if path is not None and path.is_file() else None


def read_contents(path: Path) -> Contents:
    """One pass over the file."""
    with path.open("rb", buffering=0) as stream:
        hashed = _Hashed(stream)
        reading = _Reading()
        buffered = io.BufferedReader(hashed, _CHUNK)
        packed = buffered.peek(2)[:2] == _GZIP
        try:
            reading.whole(
                cast("IO[bytes]", gzip.GzipFile(fileobj=buffered) if packed else buffered)
            )
        except Damaged as error:
            reading.faults.append(str(error))
        except _BROKEN as error:
            reading.faults.append(_told(error))
        digest = hashed.rest()
    return reading.contents(path.name, hashed.count, digest)


def is_remembered(path: Path) -> bool:
    """Whether this very file was read before: a large one takes minutes."""
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


def _told(error: Exception) -> str:
    if isinstance(error, EOFError) or "unexpected end" in str(error):
        return "it ends in the middle: it is truncated"
    return f"it is damaged: {error}"


class _Reading:
    """What is gathered on the way."""

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
        for archive, member in _members(stream):
            self._members += 1
            path = plain(member.name)
            self._judge(member)
            self._unpacked += on_disk(member.size if member.isreg() else 0)
            if member.isreg():
                if notable(path) and len(self._files) < _NAMES_LIMIT:
                    self._files[path] = member.size
                self._look_inside(archive, member, path)
        # What follows the archive's end is padding; gzip checks its sum there.
        while stream.read(_CHUNK):
            pass

    def _judge(self, member: tarfile.TarInfo) -> None:
        if member.isreg() or member.isdir():
            fault = None if plain(member.name) == "" else hostile(member.name)
        elif member.issym() or member.islnk():
            fault = hostile(member.name, member.linkname, hard=member.islnk())
        else:
            fault = f"the member {member.name!r} is a device, which no bundle needs"
        if fault and len(self.faults) < _FAULTS_LIMIT:
            self.faults.append(fault)

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
        except (Damaged, *_BROKEN) as error:
            if isinstance(error, tarfile.ReadError) and "unexpected end" in str(error):
                raise
            what = "chart" if named else "archive"
            self.faults.append(f"the {what} {path} inside can not be read: {error}")

    def _chart(self, stream: IO[bytes], path: str) -> None:
        for archive, member in _members(_plain_stream(stream)):
            if (
                member.isreg()
                and member.name.count("/") == 1
                and (member.name.endswith("/Chart.yaml") and member.size <= _CHART_YAML_LIMIT)
            ):
                text = archive.extractfile(member)
                said = yaml.safe_load(text.read()) if text else None
                if isinstance(said, dict) and said.get("name") and said.get("version"):
                    chart = Chart(path, str(said["name"]), str(said["version"]))
                    if strange("".join(chart)):
                        break
                    self._charts.append(chart)
                    return
        self.faults.append(f"the chart {path} inside has no Chart.yaml")

    def _images_of(self, stream: IO[bytes], path: str) -> None:
        """A docker-archive has a manifest.json at its root; other archives have none."""
        sizes: dict[str, int] = {}
        manifest: Any = None
        for archive, member in _members(_plain_stream(stream)):
            name = plain(member.name)
            if name == "manifest.json" and member.size <= _MANIFEST_LIMIT:
                text = archive.extractfile(member)
                manifest = _json(text.read() if text else b"")
            elif member.isreg() and len(sizes) < _NAMES_LIMIT:
                sizes[name] = member.size
        if isinstance(manifest, list):
            self._archives.append(path)
            self._named(manifest, sizes, path)

    def _named(self, manifest: list[Any], sizes: dict[str, int], path: str) -> None:
        for image in (item for item in manifest if isinstance(item, dict)):
            config = str(image.get("Config") or "")
            digest = config.rpartition("/")[2].removesuffix(".json")
            for tag in image.get("RepoTags") or ():
                if strange(str(tag) + digest):
                    self.faults.append(f"the archive {path} inside names an image {tag!r}")
                    continue
                self._images[Image(str(tag), digest if len(digest) == 64 else "")] = None
            for layer in image.get("Layers") or ():
                self._layers[str(layer)] = sizes.get(plain(str(layer)), 0)

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


def _members(stream: IO[bytes]) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Every member; tarfile would keep them all, so they are forgotten at once."""
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK, tarinfo=_StrictInfo) as archive:
        while (member := archive.next()) is not None:
            yield archive, member
            archive.members.clear()  # type: ignore[attr-defined]


def _plain_stream(stream: IO[bytes]) -> IO[bytes]:
    start = stream.peek(2)[:2]  # type: ignore[attr-defined]
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if start == _GZIP else stream


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _recall(path: Path) -> Contents | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Contents(
        **{
            **data,
            "charts": tuple(Chart(*item) for item in data["charts"]),
            "images": tuple(Image(*item) for item in data["images"]),
            "archives": tuple(data["archives"]),
            "faults": tuple(data["faults"]),
        }
    )


def _remember(path: Path, contents: Contents) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(vars(contents)), encoding="utf-8")
    new.replace(path)
