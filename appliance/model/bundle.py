"""The bundle's ``manifest.json``: what the air-gapped medium holds, byte by byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from appliance.errors import BundleRefused

SCHEMA = 1
MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
# Everything else of a bundle lies in these.
FOLDERS = ("apt", "bin", "charts", "cni", "images", "wheels")
DAMAGED = (
    "the medium may be damaged: take another copy from whoever handed it over, or build it again "
    "where there is internet; then: appliance bundle verify"
)


@dataclass(frozen=True)
class SourceUsed:
    """Where an artifact came from.

    Attributes:
        kind: url, oci, go, apt, compose, file, local, local-chart or pypi.
        verified: how it was checked; ``never`` when nothing vouches for it.
        skipped: sources that were tried before and did not work: (kind, ref, reason).
    """

    kind: str
    ref: str
    verified: str
    skipped: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class BundledArtifact:
    """One artifact: a binary, CNI plugin, image, chart, package or wheel.

    Attributes:
        standin: it plays the part of something that can not be had in a lab.
    """

    name: str
    version: str
    kind: str
    path: str
    sha256: str
    size: int
    source: SourceUsed
    standin: bool = False


@dataclass(frozen=True)
class BundledFile:
    """One regular file of the bundle; ``path`` is relative to it, ``size`` in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class BundleManifest:
    """What a bundle is.

    Attributes:
        images: ``name:tag`` without a registry -> manifest digest ``sha256:…``.
        packages: package name -> exact version, the whole closure.
        package_roots: group of a release (``runtime``, ``registry``, …) -> package names.
    """

    release: str
    os: str
    architecture: str
    tool_version: str
    created: str
    artifacts: tuple[BundledArtifact, ...] = ()
    images: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    package_roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: tuple[BundledFile, ...] = ()

    def binary_sha256(self, name: str) -> str:
        """Digest of a program in it; empty when it has none of that name."""
        digests = (a.sha256 for a in self.artifacts if (a.kind, a.name) == ("binary", name))
        return next(digests, None) or ""

    def packages_of(self, *groups: str) -> dict[str, str]:
        """The roots of some groups of packages, with their exact versions."""
        return {
            name: self.packages[name]
            for group in groups
            for name in self.package_roots.get(group, ())
        }

    @property
    def standins(self) -> tuple[str, ...]:
        """What only plays a part: ``kind name`` of each, sorted."""
        return tuple(sorted(f"{item.kind} {item.name}" for item in self.artifacts if item.standin))

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> BundleManifest:
        """Read a manifest document.

        Raises:
            BundleRefused: it is not a manifest of this schema.
        """
        try:
            if data["schema"] != SCHEMA:
                raise BundleRefused(
                    f"the bundle's manifest has schema {data['schema']!r}, not {SCHEMA}",
                    hint="use the version of this tool that built it",
                )
            return cls(
                release=data["release"],
                os=data["os"],
                architecture=data["architecture"],
                tool_version=data["tool_version"],
                created=data["created"],
                artifacts=tuple(_artifact(item) for item in data["artifacts"]),
                images=dict(data["images"]),
                packages=dict(data["packages"]),
                package_roots={k: tuple(v) for k, v in data["package_roots"].items()},
                files=tuple(BundledFile(**item) for item in data["files"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise BundleRefused(
                f"the bundle's manifest is not complete: {error!r}",
                hint=DAMAGED,
            ) from error

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
            "files": [vars(item) for item in self.files],
        }


@dataclass(frozen=True)
class Sealed:
    """A manifest as it was written.

    Attributes:
        digest: sha256 of the file, hex: the bundle digest.
        signature_removed: whether there was a signature, of other bytes than these.
        strangers: paths in the directory that no bundle of ours put there; they were left.
    """

    digest: str
    manifest: BundleManifest
    signature_removed: bool = False
    strangers: tuple[str, ...] = ()


def _artifact(data: Mapping[str, Any]) -> BundledArtifact:
    source = data["source"]
    skipped = tuple((s["kind"], s["ref"], s["reason"]) for s in source.get("skipped", ()))
    used = SourceUsed(source["kind"], source["ref"], source["verified"], skipped)
    return BundledArtifact(
        data["name"],
        data["version"],
        data["kind"],
        data["path"],
        data["sha256"],
        data["size"],
        used,
        bool(data.get("standin", False)),
    )


def _artifact_json(item: BundledArtifact) -> dict[str, Any]:
    source = {
        "kind": item.source.kind,
        "ref": item.source.ref,
        "verified": item.source.verified,
        "skipped": [
            dict(zip(("kind", "ref", "reason"), s, strict=True)) for s in item.source.skipped
        ],
    }
    told = {key: value for key, value in vars(item).items() if key != "standin" or value}
    return {**told, "source": source}
