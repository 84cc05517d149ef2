"""What building a bundle needs from the outside, as Protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.errors import ApplianceError
    from appliance.model.bundle import BundleManifest, Sealed
    from appliance.model.release import Artifact
    from appliance.model.sources import Source
    from appliance.model.taken import Taken, TakenFile


class ArtifactSources(Protocol):
    """Every kind of source, for one release on one operating system; used from many threads."""

    def take(self, artifact: Artifact, source: Source, inputs: Mapping[str, Taken]) -> Taken:
        """Bring an artifact into the cache; ``inputs`` are the parts that it is made from.

        Raises:
            ApplianceError: it can not be had from this source.
        """

    def packages(self) -> Taken:
        """The operating system's packages that the release asks for, with all they need."""

    def wheels(self) -> Taken:
        """This tool's own wheel, with all that it needs."""

    def stop(self) -> None:
        """End what is under way, at once; what is finished stays in the cache."""


class BundleStore(Protocol):
    """The directory that becomes a bundle."""

    def prepare(self, release: str, os_name: str) -> None:
        """Make it ready.

        Raises:
            Refused: it holds something else than a bundle of this release and system.
        """

    def write(self, files: Sequence[TakenFile], images: Mapping[str, tuple[str, str]]) -> None:
        """Make it hold exactly these files, the package index and the index of ``images``.

        ``images``: ``name:tag`` -> sha256 of its manifest, and that manifest's media type.
        """

    def seal(self, manifest: BundleManifest) -> Sealed:
        """List every file in the manifest, write it last, and remove a signature of other bytes.

        A manifest that differs in nothing but its date stays as it is.
        """


class BundleSigner(Protocol):
    """Somebody's key, and the bundle that it is to sign."""

    @property
    def path(self) -> str:
        """Where the signature is written."""

    def sign(self) -> bool:
        """Sign the manifest as it is now; whether another signature was there before.

        Raises:
            ApplianceError: it could not be signed.
        """


class LockFile(Protocol):
    """Digests that no citable source told, as the first build found them."""

    def record(self, learned: Mapping[str, str]) -> None:
        """Add what was found: what was taken -> hex."""


class BuildObserver(Protocol):
    """Sees a build as it goes on; called from many threads."""

    def began(self, names: Sequence[str]) -> None:
        """These are to be taken."""

    def started(self, name: str) -> None:
        """One is being taken."""

    def skipped(self, name: str, ref: str, reason: str) -> None:
        """A source did not work; the next one is tried."""

    def ended(self, name: str, took_seconds: float, outcome: Taken | ApplianceError) -> None:
        """One was taken, or could not be had from anywhere."""

    def note(self, text: str) -> None:
        """Something else an operator should know."""
