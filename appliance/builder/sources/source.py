"""The interface of a source; each kind of source has a module.

What belongs in a source: fetching an artifact into the cache, and stating how it was verified.
What must not: the order of sources (the release sets it), and trying the next one (the builder
does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from appliance.adapters.local.cache import Cache
from appliance.builder.sources.apt.packages import TargetPackages
from appliance.builder.sources.reach import Reach
from appliance.model.bundle.archives.archive import Frozen
from appliance.model.bundle.builds.fetched import FetchedArtifact
from appliance.model.bundle.release.release import Artifact

Spec_contra = TypeVar("Spec_contra", bound=Frozen, contravariant=True)


@dataclass(frozen=True)
class Context:
    """The build that a source works for.

    Attributes:
        folder: the release's folder, with its wrapper modules and C programs.
        bases: the folders of the releases that it is based on, which have what it lacks.
        files: the operator's folder of files that cannot be fetched, or None.
        locked: sha256 or digest of sources that an earlier build recorded, by ``ref``.
        inputs: the parts of an image, by name.
        standins: the folder of this installation's stand-ins; None without ``--standins``.
    """

    cache: Cache
    folder: Path
    architecture: str
    packages: TargetPackages
    reach: Reach
    files: Path | None = None
    locked: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, FetchedArtifact] = field(default_factory=dict)
    standins: Path | None = None
    bases: tuple[Path, ...] = ()

    def of_release(self, name: str) -> Path:
        """A file or folder of the release, else of the nearest release that it is based on."""
        paths = [folder / name for folder in (self.folder, *self.bases)]
        return next((path for path in paths if path.exists()), paths[0])


class Fetcher(Protocol, Generic[Spec_contra]):
    """Fetches an artifact from one kind of source."""

    def fetch(self, artifact: Artifact, spec: Spec_contra, context: Context, /) -> FetchedArtifact:
        """Fetch the artifact into the cache.

        Raises:
            SourceUnavailable: this source cannot deliver it; the next source may.
            ApplianceError: any other error that the operator should know.
        """
