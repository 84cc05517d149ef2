"""What a source gave for an artifact: files by content, and how they were checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verified = Literal["sha256", "digest", "lock", "gosum", "apt", "inputs", "pypi", "own", "never"]


@dataclass(frozen=True)
class TakenFile:
    """A file whose content is in the cache under its sha256.

    Attributes:
        path: where it goes in the bundle, with ``/`` between folders.
        name: package or project that it is, for packages and wheels.
        version: of that.
        origin: where this very file came from, when the whole came from many places.
    """

    path: str
    sha256: str
    size: int
    executable: bool = False
    name: str = ""
    version: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Taken:
    """The outcome of one source.

    Attributes:
        kind: of the source.
        ref: what was taken, for people.
        verified: what vouches for the content; ``never`` when nothing does yet.
        learned: where a release names no digest: what a lock file is to remember, and its hex.
        image: the image's manifest, for an image: sha256 in hex.
        media_type: of that manifest.
    """

    kind: str
    ref: str
    verified: Verified
    files: tuple[TakenFile, ...]
    learned: tuple[str, str] | None = None
    image: str | None = None
    media_type: str = ""
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> TakenFile:
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
    def parse(cls, data: Mapping[str, Any]) -> Taken:
        """The inverse of :meth:`as_json`."""
        files = tuple(TakenFile(**item) for item in data["files"])
        learned = tuple(data["learned"]) if data["learned"] else None
        return cls(**{**data, "files": files, "learned": learned})
