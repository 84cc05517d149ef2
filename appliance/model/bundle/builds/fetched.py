"""A fetched artifact: its files by content, and how they were verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verified = Literal["sha256", "digest", "lock", "gosum", "apt", "inputs", "pypi", "own", "never"]


@dataclass(frozen=True)
class FetchedFile:
    """A file whose content is in the cache under its sha256.

    Attributes:
        path: its path in the bundle, with ``/`` between folders.
        name: name of the package or project, for packages and wheels.
        version: version of the package or project.
        origin: the source of this file, if the files of the artifact have several sources.
    """

    path: str
    sha256: str
    size: int
    executable: bool = False
    name: str = ""
    version: str = ""
    origin: str = ""


@dataclass(frozen=True)
class FetchedArtifact:
    """An artifact that one source delivered.

    Attributes:
        kind: the kind of source.
        ref: the fetched reference, for people.
        verified: how the content was verified; ``never`` if it was not.
        learned: the reference and digest (hex) for the lock file, if the release has no digest.
        image: sha256 (hex) of the manifest, for an image.
        media_type: media type of that manifest.
    """

    kind: str
    ref: str
    verified: Verified
    files: tuple[FetchedFile, ...]
    learned: tuple[str, str] | None = None
    image: str | None = None
    media_type: str = ""
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> FetchedFile:
        """The one file of a binary, plugin or part."""
        return self.files[0]

    def as_json(self) -> dict[str, Any]:
        """Plain data, for the cache."""
        return {
            **vars(self),
            "files": [vars(item) for item in self.files],
            "details": dict(self.details),
        }

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> FetchedArtifact:
        """The inverse of :meth:`as_json`."""
        files = tuple(FetchedFile(**item) for item in data["files"])
        learned = tuple(data["learned"]) if data["learned"] else None
        return cls(**{**data, "files": files, "learned": learned})
