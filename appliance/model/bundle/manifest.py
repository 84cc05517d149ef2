"""The bundle's ``manifest.json``: every file of the bundle with its digest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from appliance.errors import BundleRefused
from appliance.model.documents.strict_json import NewerSchema, Unreadable, require_schema
from appliance.model.documents.typed_json import Line, typed

SCHEMA = 1
MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
PACKAGE_INDEX = "apt/Packages"
UPDATE_INDEX = "updates/Packages"
# For pip: the tool and its dependencies, each with version and digest.
REQUIREMENTS = "wheels/requirements.txt"
# All other files of a bundle are in these folders.
FOLDERS = ("apt", "bin", "charts", "cni", "controller", "images", "updates", "wheels")
DAMAGED = (
    "the medium may be damaged: get another copy from its sender, or build the bundle again "
    "where there is internet; then: appliance bundle verify"
)

MOST_FILES: Final = 100_000
# Every build writes these from the other files.
INDEXES: Final = frozenset(
    {
        *("apt/Packages", "apt/Packages.gz", "apt/Release"),
        *("images/oci-layout", "images/index.json", REQUIREMENTS),
    }
)
# These as well, where a bundle has updates of the nodes' packages.
UPDATE_INDEXES: Final = frozenset({UPDATE_INDEX, "updates/Packages.gz", "updates/Release"})
# Names and folders that only a build uses.
_BY_NAME: Final = re.compile(
    r"images/blobs/sha256/\.?[0-9a-f]{64}(\.partial)?|(apt|updates)/pool/[^/]+\.deb(\.partial)?"
    r"|wheels/[^/]+\.whl(\.partial)?"
)


def named_by_a_build(path: str) -> bool:
    """Whether the name shows that a build wrote the file: building again removes such a file."""
    return path in INDEXES | UPDATE_INDEXES or _BY_NAME.fullmatch(path) is not None


def _confined(path: str) -> str:
    """A path that stays below one of the bundle's folders."""
    first, *others = path.split("/")
    if first not in FOLDERS or not others or {"", ".", ".."} & set(others):
        raise ValueError("not a path inside a bundle's folders")
    return path


def _as_skipped(value: Any) -> Any:
    """Turn the objects of skipped sources into tuples."""
    if not isinstance(value, list):
        return value
    keys = ("kind", "ref", "reason")
    return tuple(tuple(item[key] for key in keys) if _has(item, keys) else item for item in value)


def _has(item: Any, keys: tuple[str, ...]) -> bool:
    return isinstance(item, dict) and item.keys() >= set(keys)


BundlePath = Annotated[
    str,
    Field(max_length=1000, pattern=r"^[A-Za-z0-9._+~%@:=,-]+(/[A-Za-z0-9._+~%@:=,!-]+)+$"),
    AfterValidator(_confined),
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0, le=1 << 50)]
ImageDigest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
ImageName = Annotated[
    str, Field(max_length=500, pattern=r"^[a-z0-9][A-Za-z0-9._/-]*:[A-Za-z0-9_][A-Za-z0-9._-]*$")
]
PackageName = Annotated[str, Field(max_length=200, pattern=r"^[a-z0-9][a-z0-9+.-]*$")]
PackageVersion = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9.+:~-]*$")]


@dataclass(frozen=True)
class SourceUsed:
    """The source of an artifact.

    Attributes:
        kind: url, oci, go, go-file, c-library, apt, compose, file, local, local-chart or pypi.
        verified: how the content was verified; ``never`` if it was not.
        skipped: sources that were tried before and failed: (kind, ref, reason).
    """

    kind: Line
    ref: str
    verified: Line
    skipped: Annotated[tuple[tuple[str, str, str], ...], BeforeValidator(_as_skipped)] = ()


@dataclass(frozen=True)
class BundledArtifact:
    """One artifact: a binary, CNI plugin, image, chart, package or wheel.

    Attributes:
        standin: it replaces a component that a lab cannot have.
    """

    name: Line
    version: Line
    kind: Line
    path: BundlePath
    sha256: Sha256
    size: Size
    source: SourceUsed
    standin: bool = False


@dataclass(frozen=True)
class BundledFile:
    """One regular file; ``path`` is relative to the bundle, ``size`` in bytes."""

    path: BundlePath
    sha256: Sha256
    size: Size


@dataclass(frozen=True)
class Updates:
    """The updates of the nodes' packages that a bundle carries.

    Attributes:
        since: the first day of the updates, ISO 8601.
        nodes: the nodes whose packages were asked for, as the list named them.
        packages: package name -> its exact version, with new dependencies.
        older: package name -> version of updates that were left out: built before that day.
    """

    since: Line
    nodes: tuple[Line, ...] = ()
    packages: Mapping[PackageName, PackageVersion] = field(default_factory=dict)
    older: Mapping[PackageName, PackageVersion] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "since": self.since,
            "nodes": list(self.nodes),
            "packages": dict(self.packages),
            "older": dict(self.older),
        }


@dataclass(frozen=True)
class BundleManifest:
    """The content of a bundle.

    Attributes:
        images: ``name:tag`` without a registry -> manifest digest ``sha256:…``.
        packages: package name -> exact version, with all dependencies.
        package_roots: group of a release (``runtime``, ``registry``, …) -> package names.
        pythons: version of Python that the wheels are for -> how they were tried.
        updates: of the nodes' packages; None where the bundle has none.
    """

    release: Line
    os: Line
    architecture: Line
    tool_version: Line
    created: Line
    artifacts: tuple[BundledArtifact, ...] = ()
    images: Mapping[ImageName, ImageDigest] = field(default_factory=dict)
    packages: Mapping[PackageName, PackageVersion] = field(default_factory=dict)
    package_roots: Mapping[Line, tuple[PackageName, ...]] = field(default_factory=dict)
    files: Annotated[tuple[BundledFile, ...], Field(max_length=MOST_FILES)] = ()
    pythons: Mapping[Line, Line] = field(default_factory=dict)
    updates: Updates | None = None

    def binary_sha256(self, name: str) -> str:
        """Digest of a program; empty if the bundle has no program of that name."""
        digests = (a.sha256 for a in self.artifacts if (a.kind, a.name) == ("binary", name))
        return next(digests, None) or ""

    @property
    def package_index_sha256(self) -> str:
        """Digest of the package index, which lists each package's; empty without packages."""
        return self._sha256_of(PACKAGE_INDEX)

    @property
    def update_index_sha256(self) -> str:
        """Digest of the index of the updates; empty where the bundle has none."""
        return self._sha256_of(UPDATE_INDEX)

    def _sha256_of(self, path: str) -> str:
        return next((file.sha256 for file in self.files if file.path == path), "")

    def packages_of(self, *groups: str) -> dict[str, str]:
        """The roots of some groups of packages, with their exact versions."""
        return {
            name: self.packages[name]
            for group in groups
            for name in self.package_roots.get(group, ())
        }

    @property
    def standins(self) -> tuple[str, ...]:
        """The stand-ins: ``kind name`` of each, sorted."""
        return tuple(sorted(f"{item.kind} {item.name}" for item in self.artifacts if item.standin))

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> BundleManifest:
        """Read a manifest document.

        Raises:
            BundleRefused: it is not a manifest of this schema.
        """
        try:
            manifest = typed(require_schema(data, SCHEMA), cls)
            _require_sense(manifest)
        except NewerSchema as error:
            raise BundleRefused(
                f"the bundle's manifest: {error}",
                hint="use the version of this tool that built it",
            ) from error
        except Unreadable as error:
            raise BundleRefused(f"the bundle's manifest is invalid: {error}", hint=DAMAGED) from (
                error
            )
        return manifest

    def as_json(self) -> dict[str, Any]:
        """The inverse of :meth:`parse`."""
        return {
            "schema": SCHEMA,
            "release": self.release,
            "os": self.os,
            "architecture": self.architecture,
            "tool_version": self.tool_version,
            "created": self.created,
            "artifacts": [_artifact_json(item) for item in self.artifacts],
            "images": dict(self.images),
            "packages": dict(self.packages),
            "package_roots": {k: list(v) for k, v in self.package_roots.items()},
            **({"pythons": dict(self.pythons)} if self.pythons else {}),
            **({"updates": self.updates.as_json()} if self.updates else {}),
            "files": [vars(item) for item in self.files],
        }


@dataclass(frozen=True)
class SealResult:
    """The result of writing a manifest.

    Attributes:
        digest: sha256 of the file, hex: the bundle digest.
        signature_removed: whether a signature of another manifest was removed.
        strangers: paths in the directory that no build wrote; they were not removed.
        left_out: paths that a delta leaves out.
    """

    digest: str
    manifest: BundleManifest
    signature_removed: bool = False
    strangers: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def _require_sense(manifest: BundleManifest) -> None:
    """Refuse contradictions between fields.

    Raises:
        Unreadable: a file is listed twice, a root package has no version, or updates no index.
    """
    if len({file.path for file in manifest.files}) != len(manifest.files):
        raise Unreadable("files: a path is listed twice")
    if manifest.updates is not None and not manifest.update_index_sha256:
        raise Unreadable(f"updates: {UPDATE_INDEX} is not listed")
    for group, names in manifest.package_roots.items():
        for name in names:
            if name not in manifest.packages:
                raise Unreadable(f"package_roots.{group}: {name} has no version in packages")


def _artifact_json(item: BundledArtifact) -> dict[str, Any]:
    source = {
        "kind": item.source.kind,
        "ref": item.source.ref,
        "verified": item.source.verified,
        "skipped": [
            dict(zip(("kind", "ref", "reason"), s, strict=True)) for s in item.source.skipped
        ],
    }
    fields = {key: value for key, value in vars(item).items() if key != "standin" or value}
    return {**fields, "source": source}
