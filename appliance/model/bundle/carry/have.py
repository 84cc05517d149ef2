"""The list that ``bundle have`` writes: what a bundle holds, by the sha256 of its files.

It travels from a site to the build machine, where ``bundle build --without`` reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from appliance.model.bundle.lists import reading_list
from appliance.model.bundle.manifest import MOST_FILES, BundleManifest, Sha256, Size
from appliance.model.documents.strict_json import MOST_BYTES, Unreadable
from appliance.model.documents.typed_json import Line, read_typed

SCHEMA: Final = 1
KIND: Final = "bundle have"
_AGAIN: Final = (
    "write the list again: appliance bundle have DIR, or at the site: "
    "appliance bundle have --site SITE"
)


@dataclass(frozen=True)
class HeldFile:
    """Content that a bundle holds; ``size`` in bytes."""

    sha256: Sha256
    size: Size


@dataclass(frozen=True)
class HaveList:
    """What one bundle holds.

    Attributes:
        kind: tells this document from a manifest, which has similar fields.
        bundle: the digest of that bundle.
        files: each content once, whatever its path.
    """

    kind: Literal["bundle have"]
    bundle: Sha256
    release: Line
    os: Line
    files: Annotated[tuple[HeldFile, ...], Field(max_length=MOST_FILES)]

    @classmethod
    def of(cls, manifest: BundleManifest, digest: str) -> HaveList:
        """The list of a bundle.

        Args:
            manifest: that of the bundle.
            digest: sha256 of the manifest's bytes, hex.
        """
        sizes = {file.sha256: file.size for file in manifest.files}
        held = tuple(HeldFile(sha256, size) for sha256, size in sorted(sizes.items()))
        return cls(KIND, digest, manifest.release, manifest.os, held)

    @classmethod
    def parse(cls, content: bytes, name: str) -> HaveList:
        """Read a list; ``name`` is the file, for the message.

        Raises:
            BundleRefused: it is not a list of this schema, is too large, or lists a file twice.
        """
        with reading_list(name, KIND, _AGAIN):
            found = read_typed(content, cls, newest_schema=SCHEMA, most_bytes=MOST_BYTES)
            if len({file.sha256 for file in found.files}) != len(found.files):
                raise Unreadable("files: a sha256 is listed twice")
        return found

    def as_json(self) -> dict[str, Any]:
        """The inverse of :meth:`parse`."""
        head = {"schema": SCHEMA, "kind": self.kind, "bundle": self.bundle}
        files = [vars(file) for file in self.files]
        return {**head, "release": self.release, "os": self.os, "files": files}

    def text(self) -> str:
        """The document as it is written: one line for each file."""
        head = {key: value for key, value in self.as_json().items() if key != "files"}
        lines = ",\n".join(f" {json.dumps(vars(file))}" for file in self.files)
        return f'{json.dumps(head)[:-1]}, "files": [\n{lines}\n]}}\n'
