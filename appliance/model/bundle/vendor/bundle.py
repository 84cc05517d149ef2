"""The vendor's bundle, ``runai-<version>.tar[.gz]``: what is inside, and what follows from it.

Decided by what is inside, never by the file's name. What must not be here: reading the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from appliance.model.bundle.release.runai_versions import (
    brings_its_own,
    minor_of,
    runs_on,
    supported_range,
    what_it_lacks,
)

FILE_NAMES = (
    "runai-*.tar",
    "runai-*.tar.gz",
    "runai-air-gapped-*.tar",
    "runai-air-gapped-*.tar.gz",
)
# The name that the backend's download has, and those that people give it.
RESEARCHER_CLI = ("runai", "runai-linux", "runai-linux-amd64", "runai-cli-linux-amd64")
SCRIPT = "prepare_installation.sh"
GIGABYTE = 1_000_000_000
_VERSION = r"v?\d+\.\d+[\w.+-]*?"
_CHART = re.compile(rf"^(runai-backend|runai-cluster|control-plane)-({_VERSION})\.tgz$")
_CLI = re.compile(rf"^runai-admin-cli-({_VERSION})-linux-amd64\.tar\.gz$")
_HELM = re.compile(rf"^helm-({_VERSION})-linux-amd64\.tar\.gz$")
_BLOCK = 4096


class Generation(StrEnum):
    """Which procedure installs it."""

    VALUES = "values file, up to 2.8"
    VALUES_BARE = "values file, 2.9 to 2.11"
    CONTROL_PLANE = "control-plane chart, 2.12 and later"
    UNKNOWN = "unknown"


class Chart(NamedTuple):
    """A packed Helm chart of the bundle; name and version are those of its Chart.yaml."""

    path: str
    name: str
    version: str


class Image(NamedTuple):
    """An image of a docker-archive in the bundle.

    Attributes:
        tag: as the archive says, such as ``gcr.io/run-ai-prod/backend:2.7.1``.
        config: sha256 of its configuration in hex; empty when the archive does not say.
    """

    tag: str
    config: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called in the registry.

        The script's rule is not documented: with its old path or with the last part alone.
        """
        first, slash, rest = self.tag.partition("/")
        is_host = slash and ("." in first or ":" in first or first == "localhost")
        path = rest if is_host else self.tag
        parts = path.split("/")
        return tuple("/".join(parts[index:]) for index in range(len(parts)))


@dataclass(frozen=True)
class Contents:
    """What one pass over the tar gave.

    Attributes:
        file_name: of the tar, without its folder.
        size: of the file.
        sha256: of the file.
        files: path -> size of what may matter, the ``deploy`` folder's own files.
        charts: charts whose Chart.yaml could be read.
        images: of every docker-archive inside.
        archives: paths of the docker-archives.
        layer_bytes: the layers of all archives, unpacked, each counted once.
        unpacked_bytes: what the members take on a disk.
        members: how many there are.
        faults: one sentence for each thing that must not be: truncated, members that leave the
            folder.
    """

    file_name: str
    size: int
    sha256: str
    files: Mapping[str, int] = field(default_factory=dict)
    charts: tuple[Chart, ...] = ()
    images: tuple[Image, ...] = ()
    archives: tuple[str, ...] = ()
    layer_bytes: int = 0
    unpacked_bytes: int = 0
    members: int = 0
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class VendorBundle:
    """A vendor bundle, judged."""

    contents: Contents

    @property
    def sha256(self) -> str:
        """Of the file."""
        return self.contents.sha256

    @property
    def script(self) -> str | None:
        """Path of ``prepare_installation.sh`` in the bundle."""
        return self._file(lambda name: name == SCRIPT)

    @property
    def deploy(self) -> str:
        """The folder in which the vendor's procedure is carried out."""
        return (self.script or "deploy/").rpartition("/")[0]

    @property
    def cli(self) -> str | None:
        """Path of the admin CLI: an archive, or the program itself."""
        return self._file(lambda name: bool(_CLI.match(name)) or name == "runai-adm")

    @property
    def researcher_cli(self) -> str | None:
        """Path of the researchers' CLI, the program itself; most bundles have none."""
        return self._file(lambda name: name in RESEARCHER_CLI)

    @property
    def helm(self) -> str | None:
        """Path of the vendor's helm archive."""
        return self._file(lambda name: bool(_HELM.match(name)))

    @property
    def crds(self) -> str | None:
        """Path of ``runai-crds.yaml``, for upgrades."""
        return self._file(lambda name: name == "runai-crds.yaml")

    @property
    def diagnostics(self) -> str | None:
        """Path of the vendor's pre-install diagnostics."""
        return self._file(lambda name: name.startswith("preinstall-diagnostics"))

    @property
    def backend(self) -> Chart | None:
        """The chart of the backend, whatever it is called in this generation."""
        return self.chart("runai-backend") or self.chart("control-plane")

    @property
    def cluster(self) -> Chart | None:
        """The chart of the cluster part."""
        return self.chart("runai-cluster")

    @property
    def version(self) -> str | None:
        """The backend chart's version; without one the cluster chart's, the CLI's, the file's."""
        chart = self.backend or self.cluster
        if chart:
            return chart.version.removeprefix("v")
        named = _CLI.match((self.cli or "").rpartition("/")[2])
        return named.group(1).removeprefix("v") if named else self.named_version

    @property
    def named_version(self) -> str | None:
        """What the file's name says."""
        found = re.match(
            rf"^runai-(?:air-gapped-)?({_VERSION})\.tar(?:\.gz)?$", self.contents.file_name
        )
        return found.group(1).removeprefix("v") if found else None

    @property
    def generation(self) -> Generation:
        """By the charts that are there, then by their version."""
        if self.chart("control-plane"):
            return Generation.CONTROL_PLANE
        line = minor_of(self.version)
        if not self.chart("runai-backend") or line is None:
            return Generation.UNKNOWN
        return Generation.VALUES if brings_its_own(line) else Generation.VALUES_BARE

    @property
    def missing(self) -> tuple[str, ...]:
        """What an install needs and the bundle lacks."""
        lacks = []
        if self.script is None:
            lacks.append(SCRIPT)
        if self.backend is None:
            lacks.append("the backend's chart (runai-backend-<version>.tgz)")
        if self.cluster is None:
            lacks.append("the cluster's chart (runai-cluster-<version>.tgz)")
        if self.cli is None and self.generation is not Generation.CONTROL_PLANE:
            lacks.append("the admin CLI (runai-admin-cli-<version>-linux-amd64.tar.gz)")
        return tuple(lacks)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is worth knowing and stops nothing."""
        said = []
        if self.named_version and self.version and self.named_version != self.version:
            said.append(f"the file's name says {self.named_version}, its chart {self.version}")
        if not has_documented_name(self.contents.file_name):
            said.append(
                f"the file name is not one of the documented names: {', '.join(FILE_NAMES)}"
            )
        if not self.contents.images:
            said.append(
                "no docker-archive inside: what the script pushes cannot be told beforehand, so it "
                "cannot be looked for in the registry"
            )
        if self.crds is None:
            said.append("no runai-crds.yaml: an upgrade of the cluster part would miss it")
        return tuple(said)

    def chart(self, name: str) -> Chart | None:
        """The chart of that name."""
        return next((chart for chart in self.contents.charts if chart.name == name), None)

    def support(self, kubernetes: str) -> str | None:
        """Why a release with this Kubernetes does not carry it; None when it does."""
        line = minor_of(self.version)
        if line is not None and runs_on(line, kubernetes):
            return None
        lacking = what_it_lacks(line)
        because = f": {lacking}" if lacking else ""
        return f"{supported_range(kubernetes)}, not {self.version or 'of unknown version'}{because}"

    def faults(self, kubernetes: str) -> tuple[str, ...]:
        """Everything for which it is refused, one sentence each; the first one tells most."""
        if self.contents.faults:
            return self.contents.faults
        found = [f"it lacks {what}" for what in self.missing]
        against = self.support(kubernetes)
        if against and self.version:
            found.insert(0, f"Kubernetes {kubernetes} runs Run:ai {against}")
        return tuple(found)

    def needs_bytes(self, minimum_free_gb: int) -> Needs:
        """Free space for each thing that is done with it, before any of it is done."""
        return Needs(
            unpack=max(
                self.contents.size + self.contents.unpacked_bytes, minimum_free_gb * GIGABYTE
            ),
            docker=self.contents.layer_bytes,
            registry=self.contents.layer_bytes,
        )

    def record(self) -> dict[str, Any]:
        """What stays beside the unpacked bundle, for whoever has no copy of the tar."""
        contents = self.contents
        return {
            "sha256": contents.sha256,
            "size": contents.size,
            "file_name": contents.file_name,
            "version": self.version,
            "generation": self.generation.value,
            "deploy": self.deploy,
            "files": dict(contents.files),
            "charts": [list(chart) for chart in contents.charts],
            "images": [list(image) for image in contents.images],
        }

    @classmethod
    def from_record(cls, data: Mapping[str, Any]) -> VendorBundle | None:
        """A bundle that was unpacked before, without its space and faults; None if it is none."""
        try:
            contents = Contents(
                file_name=str(data["file_name"]),
                size=int(data["size"]),
                sha256=str(data["sha256"]),
                files=dict(data["files"]),
                charts=tuple(Chart(*item) for item in data["charts"]),
                images=tuple(Image(*item) for item in data["images"]),
            )
        except (KeyError, TypeError, ValueError):
            return None
        return cls(contents)

    def _file(self, fits: Any) -> str | None:
        paths = sorted(self.contents.files, key=lambda path: (path.count("/"), path))
        return next((path for path in paths if fits(path.rpartition("/")[2])), None)


class Needs(NamedTuple):
    """Bytes that must be free where a bundle is unpacked, loaded and pushed."""

    unpack: int
    docker: int
    registry: int


class Shortage(NamedTuple):
    """A file system that is too small for what is to be done on it."""

    mount: str
    free: int
    need: int
    purposes: tuple[str, ...]


def has_documented_name(file_name: str) -> bool:
    """Whether a file is called as the vendor's documents say."""
    return any(fnmatchcase(file_name, pattern) for pattern in FILE_NAMES)


def notable(path: str) -> bool:
    """Whether a member's name is kept: what stands at most two folders deep."""
    return path.count("/") <= 2


def chart_name(path: str) -> tuple[str, str] | None:
    """Name and version that a chart's file name says, or None when it is no chart of ours."""
    found = _CHART.match(path.rpartition("/")[2])
    return (found.group(1), found.group(2)) if found else None


def on_disk(size: int) -> int:
    """What a file takes on a file system."""
    return -(-size // _BLOCK) * _BLOCK


def hostile(path: str, target: str | None = None, *, hard: bool = False) -> str | None:
    """Why a member must not be unpacked: its name, or what it links to, is outside; or None."""
    if strange(path) or strange(target or ""):
        return f"the member {path!r} has a name that no bundle needs"
    if _leaves(path):
        return f"the member {path!r} would be written outside the folder it is unpacked in"
    if target is None:
        return None
    base = "" if hard else path.rpartition("/")[0]
    if target.startswith("/") or _leaves(f"{base}/{target}" if base else target, walk=True):
        return f"the member {path!r} links to {target!r}, outside the folder it is unpacked in"
    return None


def strange(text: str) -> bool:
    """Whether a name holds what would be read as something else: templates, control characters."""
    return re.search(r"[{}\x00-\x1f\x7f]", text) is not None


def _leaves(path: str, *, walk: bool = False) -> bool:
    if path.startswith("/") or not path:
        return True
    if not walk:
        return ".." in path.split("/")
    depth = 0
    for part in path.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False


def plain(path: str) -> str:
    """A member's name without what means nothing: ``./deploy//x/`` -> ``deploy/x``."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def short_of_space(
    needs: Needs, filesystems: Iterable[Mapping[str, Any]], folders: Mapping[str, str]
) -> list[Shortage]:
    """File systems that are too small.

    Args:
        needs: what is needed where.
        filesystems: of facts, with ``for``, ``mount`` and ``free_bytes``.
        folders: ``unpack``, ``docker`` and ``registry`` -> the folder that is filled.
    """
    short = []
    for held in filesystems:
        purposes = tuple(p for p, folder in folders.items() if folder in held.get("for", ()))
        need = sum(int(getattr(needs, purpose)) for purpose in purposes)
        free = int(held.get("free_bytes") or 0)
        if free < need:
            short.append(Shortage(str(held["mount"]), free, need, purposes))
    return short
