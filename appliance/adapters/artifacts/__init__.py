"""One module for each kind of source that an artifact can come from.

What belongs here: taking an artifact from a source into the cache, and saying what vouches for it.
What must not: the order of sources, which is the release's, and trying the next, which is the
builder's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from appliance.adapters.artifacts.packages import TargetPackages
from appliance.adapters.artifacts.reach import Reach
from appliance.adapters.cache import Cache
from appliance.model.release import Artifact
from appliance.model.sources import Frozen
from appliance.model.taken import Taken

Spec_contra = TypeVar("Spec_contra", bound=Frozen, contravariant=True)


@dataclass(frozen=True)
class Context:
    """What every source needs to know of the build it works for.

    Attributes:
        folder: the release's own folder, with its wrapper modules and C programs.
        files: the operator's folder of files that can not be fetched, or None.
        locked: sha256 or digest of sources that an earlier build recorded, by ``ref``.
        inputs: the parts that an image is made from, by name.
        standins: the folder of this installation's stand-ins; None where none are asked for.
    """

    cache: Cache
    folder: Path
    architecture: str
    packages: TargetPackages
    reach: Reach
    files: Path | None = None
    locked: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Taken] = field(default_factory=dict)
    standins: Path | None = None


class Source(Protocol, Generic[Spec_contra]):
    """Takes an artifact from one kind of source."""

    def take(self, artifact: Artifact, spec: Spec_contra, context: Context, /) -> Taken:
        """Bring the artifact into the cache.

        Raises:
            SourceUnavailable: it can not be had from here; the next source may have it.
            ApplianceError: something is wrong that the operator should know.
        """
