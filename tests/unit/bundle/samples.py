"""A small release and fakes of everything that a build needs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from appliance.errors import ApplianceError, SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile, Verified
from appliance.model.bundle.manifest import BundleManifest, SealResult
from appliance.model.bundle.release.release import Artifact, Release
from appliance.model.bundle.release.sources import Source

VERSIONS = {
    "kubernetes": "1.23.5",
    "etcd": "3.5.1",
    "coredns": "1.8.6",
    "pause": "3.6",
    "flannel": "0.19.2",
    "cni_plugins": "1.1.1",
    "docker": "20.10.11",
    "helm": "3.8.2",
    "crane": "0.20.2",
    "registry": "2.8.2",
    "busybox": "1.35.0",
}
URL = {"kind": "url", "url": "https://maker.test/tool"}
GO = {"kind": "go", "module": "tool", "package": "example.test/tool", "at": "v1.0.0"}


def artifact(name: str, kind: str = "binary", **fields: Any) -> dict[str, Any]:
    """An artifact as a release file says it."""
    more = {"image": f"{name}:v1"} if kind == "image" else {}
    return {"name": name, "kind": kind, "version": "1.0", "sources": [URL, GO], **more, **fields}


def image_of(name: str, *parts: str) -> dict[str, Any]:
    """An image that is made from parts."""
    files = {f"/{part}": part for part in parts}
    return artifact(name, "image", sources=[{"kind": "compose", "files": files}])


def release_data(*artifacts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A release as its file says it."""
    return {
        "name": "r1",
        "description": "a release of a test",
        "architecture": "amd64",
        "runtime": {"name": "docker", "socket": "/var/run/dockershim.sock"},
        "versions": VERSIONS,
        "needs": {"etcd": "3.5", "docker": "20.10"},
        "support_ends": {"kubernetes": "2023-02-28"},
        "operating_systems": {
            "debian-12": {
                "title": "Debian",
                "versions": {"docker": "20.10.24"},
                "package_roots": {"time": ["chrony"], "runtime": ["docker.io=20.10.24", "chrony"]},
            },
            "ubuntu-20.04": {"title": "Ubuntu", "versions": {}, "package_roots": {}},
        },
        "artifacts": list(artifacts),
        **changes,
    }


def release(*artifacts: dict[str, Any], **changes: Any) -> Release:
    """A release of a test."""
    return Release.model_validate(release_data(*artifacts, **changes))


def file_of(path: str, content: str = "", **fields: Any) -> FetchedFile:
    """A file whose content is named rather than kept."""
    data = (content or path).encode()
    return FetchedFile(path, hashlib.sha256(data).hexdigest(), len(data), **fields)


class FakeSources:
    """Takes everything at once, but what ``broken`` says."""

    def __init__(self) -> None:
        self.broken: dict[tuple[str, str], ApplianceError] = {}
        self.fetched: list[tuple[str, str]] = []
        self.before: Callable[[str], None] = lambda _name: None
        self.stopped = False
        self._lock = threading.Lock()

    def break_source(self, name: str, kind: str, reason: str = "cannot be reached") -> None:
        """From now on this source does not work."""
        self.broken[name, kind] = SourceUnavailable(reason)

    def fetch(
        self, artifact: Artifact, source: Source, inputs: Mapping[str, FetchedArtifact]
    ) -> FetchedArtifact:
        """Take, or fail as told."""
        self.before(artifact.name)
        with self._lock:
            self.fetched.append((artifact.name, source.kind))
        if error := self.broken.get((artifact.name, source.kind)):
            raise error
        if artifact.kind == "image":
            return self._image(artifact, source, inputs)
        learned = (source.ref, "ab" * 32) if source.kind == "url" else None
        verified: Verified = "never" if learned else "gosum"
        return FetchedArtifact(
            source.kind,
            source.ref,
            verified,
            (file_of(artifact.path),),
            learned=learned,
        )

    @staticmethod
    def _image(
        artifact: Artifact, source: Source, inputs: Mapping[str, FetchedArtifact]
    ) -> FetchedArtifact:
        layer = file_of(f"images/blobs/sha256/{'-'.join(sorted(inputs))}")
        manifest = file_of(f"images/blobs/sha256/{artifact.name}")
        return FetchedArtifact(
            source.kind, source.ref, "inputs", (layer, manifest), image=manifest.sha256,
            media_type="application/vnd.oci.image.manifest.v1+json",
        )  # fmt: skip

    def packages(self) -> FetchedArtifact:
        """Two packages."""
        if error := self.broken.get(("packages", "apt")):
            raise error
        names = (("chrony", "4.3"), ("docker.io", "20.10.24"))
        return FetchedArtifact(
            "apt", "roots", "apt",
            tuple(file_of(f"apt/pool/{n}.deb", name=n, version=v, origin=n) for n, v in names),
        )  # fmt: skip

    def updates(self) -> FetchedArtifact:
        return FetchedArtifact(
            "apt",
            "updates since 2026-10-01",
            "apt",
            (file_of("updates/pool/openssl.deb", name="openssl", version="1.1.1f-1ubuntu2.24"),),
            details={"zlib1g": "1:1.2.11"},
        )

    def wheels(self) -> FetchedArtifact:
        """One wheel."""
        wheel = file_of("wheels/us-1-py3-none-any.whl", name="us", version="1")
        return FetchedArtifact("pypi", "the tool", "pypi", (wheel,))

    def stop(self) -> None:
        """Remember it."""
        self.stopped = True


class FakeStore:
    """A directory that is kept in memory."""

    def __init__(self) -> None:
        self.files: dict[str, FetchedFile] = {}
        self.images: dict[str, tuple[str, str]] = {}
        self.sealed: BundleManifest | None = None
        self.prepared: tuple[str, str] | None = None
        self.signed_before = False

    def prepare(self, release: str, os_name: str) -> None:
        """Remember it."""
        self.prepared = (release, os_name)

    def write(self, files: Sequence[FetchedFile], images: Mapping[str, tuple[str, str]]) -> None:
        """Remember it."""
        self.files = {file.path: file for file in files}
        self.images = dict(images)

    def seal(self, manifest: BundleManifest) -> SealResult:
        """Remember it."""
        self.sealed = manifest
        return SealResult("dd" * 32, manifest, signature_removed=self.signed_before)


class FakeLock:
    """A lock file in memory."""

    def __init__(self) -> None:
        self.recorded: dict[str, str] = {}

    def record(self, learned: Mapping[str, str]) -> None:
        """Remember it."""
        self.recorded |= learned


class FakeObserver:
    """Keeps what it sees."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.skips: list[tuple[str, str, str]] = []
        self.outcomes: dict[str, FetchedArtifact | ApplianceError] = {}
        self.notes: list[str] = []

    def began(self, names: Sequence[str]) -> None:
        """Remember it."""
        self.names = list(names)

    def started(self, name: str) -> None:
        """Nothing to remember."""

    def skipped(self, name: str, ref: str, reason: str) -> None:
        """Remember it."""
        self.skips.append((name, ref, reason))

    def ended(
        self, name: str, took_seconds: float, outcome: FetchedArtifact | ApplianceError
    ) -> None:
        """Remember it."""
        assert took_seconds >= 0
        self.outcomes[name] = outcome

    def note(self, text: str) -> None:
        """Remember it."""
        self.notes.append(text)
