"""The Protocols of a bundle build's adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.errors import ApplianceError
    from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
    from appliance.model.bundle.manifest import BundleManifest, SealResult
    from appliance.model.bundle.release.release import Artifact
    from appliance.model.bundle.release.sources import Source


class ArtifactSources(Protocol):
    """All kinds of sources, for one release on one operating system; used from many threads."""

    def fetch(
        self, artifact: Artifact, source: Source, inputs: Mapping[str, FetchedArtifact]
    ) -> FetchedArtifact:
        """Fetch an artifact into the cache; ``inputs`` are the parts it is made from.

        Raises:
            ApplianceError: this source cannot deliver it.
        """

    def packages(self) -> FetchedArtifact:
        """The operating system's packages of the release, with their dependencies."""

    def updates(self) -> FetchedArtifact:
        """The updates of the nodes' packages; ``details``: name -> version of what is older.

        Raises:
            BundleRefused: none were asked for.
        """

    def wheels(self) -> FetchedArtifact:
        """This tool's own wheel, with its dependencies."""

    def stop(self) -> None:
        """Stop all running fetches at once; finished artifacts stay in the cache."""


class BundleStore(Protocol):
    """The directory that becomes a bundle."""

    def prepare(self, release: str, os_name: str) -> None:
        """Prepare the directory.

        Raises:
            Refused: it holds something other than a bundle of this release and system.
        """

    def write(self, files: Sequence[FetchedFile], images: Mapping[str, tuple[str, str]]) -> None:
        """Write exactly these files, the package index and the index of ``images``.

        ``images``: ``name:tag`` -> sha256 and media type of its manifest.
        """

    def seal(self, manifest: BundleManifest) -> SealResult:
        """Write the manifest last, with every file, and remove a signature of another manifest.

        A manifest that differs only in its date is not rewritten.
        """


class BundleSigner(Protocol):
    """Signs a bundle with an SSH key."""

    @property
    def path(self) -> str:
        """Path of the signature."""

    def sign(self) -> bool:
        """Sign the manifest; return whether this replaced an earlier signature.

        Raises:
            ApplianceError: signing failed.
        """


class LockFile(Protocol):
    """Digests without a citable source, as the first build recorded them."""

    def record(self, learned: Mapping[str, str]) -> None:
        """Add digests: the fetched reference -> its digest in hex."""


class BuildObserver(Protocol):
    """Observes the progress of a build; called from many threads."""

    def began(self, names: Sequence[str]) -> None:
        """The build starts with these artifacts."""

    def started(self, name: str) -> None:
        """An artifact is being fetched."""

    def skipped(self, name: str, ref: str, reason: str) -> None:
        """A source did not work; the build tries the next one."""

    def ended(
        self, name: str, took_seconds: float, outcome: FetchedArtifact | ApplianceError
    ) -> None:
        """An artifact was fetched, or all its sources failed."""

    def note(self, text: str) -> None:
        """Another message for the operator."""
