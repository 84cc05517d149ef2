"""A delta: a bundle with its whole manifest, but without the files that a site has already.

``delta.json`` beside the manifest lists what was left out. Nobody signs it: it only turns a missing
file into an expected one. At the site every file is compared with the signed manifest anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import Field

from appliance.errors import BundleRefused
from appliance.model.bundle.carry.have import HaveList
from appliance.model.bundle.manifest import (
    DAMAGED,
    INDEXES,
    MOST_FILES,
    UPDATE_INDEXES,
    BundleManifest,
    BundlePath,
    Sha256,
)
from appliance.model.documents.strict_json import MOST_BYTES, Unreadable
from appliance.model.documents.typed_json import read_typed

SCHEMA: Final = 1
KIND: Final = "bundle delta"
DELTA: Final = "delta.json"
# The admin host takes this tool from these folders, and it cannot read the services node's bundle.
WHOLE_FOLDERS: Final = ("wheels", "controller")
_MEGABYTE: Final = 1_000_000
_FEW: Final = 10
_SHOWN: Final = 12


class _File(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def sha256(self) -> str: ...

    @property
    def size(self) -> int: ...


@dataclass(frozen=True)
class Delta:
    """What a bundle leaves out.

    Attributes:
        kind: tells this document from others.
        bundle: digest of the manifest beside it.
        without: digest of the bundle that has the files.
        files: the paths that were left out.
    """

    kind: Literal["bundle delta"]
    bundle: Sha256
    without: Sha256
    files: Annotated[tuple[BundlePath, ...], Field(max_length=MOST_FILES)]

    @classmethod
    def parse(cls, content: bytes, manifest: BundleManifest, digest: str) -> Delta:
        """Read ``delta.json`` of the bundle with this manifest and digest.

        Raises:
            BundleRefused: it is invalid, of another bundle, or leaves out what always travels.
        """
        try:
            found = read_typed(content, cls, newest_schema=SCHEMA, most_bytes=MOST_BYTES)
            found.require_sense(manifest, digest)
        except Unreadable as error:
            raise BundleRefused(f"{DELTA} is invalid: {error}", hint=DAMAGED) from error
        return found

    def require_sense(self, manifest: BundleManifest, digest: str) -> None:
        """Compare it with its manifest.

        Raises:
            Unreadable: they contradict each other.
        """
        if self.bundle != digest:
            raise Unreadable(f"it belongs to bundle {self.bundle[:_SHOWN]}, not {digest[:_SHOWN]}")
        if len(set(self.files)) != len(self.files):
            raise Unreadable("files: a path is listed twice")
        listed = {file.path for file in manifest.files}
        for path in self.files:
            if path not in listed:
                raise Unreadable(f"files: {path} is not in the manifest")
            if always_travels(path):
                raise Unreadable(f"files: {path} is in every delta")

    def as_json(self) -> dict[str, Any]:
        """The inverse of :meth:`parse`."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "bundle": self.bundle,
            "without": self.without,
            "files": list(self.files),
        }

    def expected_bytes(self, manifest: BundleManifest) -> int:
        """The size of the files that the site must have."""
        absent = set(self.files)
        return sum(file.size for file in manifest.files if file.path in absent)

    def words(self, manifest: BundleManifest) -> str:
        """What is expected at the site, in one sentence."""
        size = megabytes(self.expected_bytes(manifest))
        count = f"{len(self.files)} file{'s' if len(self.files) != 1 else ''}"
        return f"against {self.without[:_SHOWN]}: {count}, {size} MB are expected at the site"

    def share_words(self, manifest: BundleManifest) -> str:
        """The size of the delta compared with the whole bundle."""
        whole = sum(file.size for file in manifest.files)
        here = whole - self.expected_bytes(manifest)
        percent = 100 * here / whole if whole else 100.0
        return f"{percent:.0f} % ({megabytes(here)} of {megabytes(whole)} MB)"


def megabytes(size: int) -> str:
    """Bytes as megabytes, with one decimal where they are few."""
    number = size / _MEGABYTE
    return f"{number:.1f}" if number < _FEW else f"{number:.0f}"


def always_travels(path: str) -> bool:
    """Whether a delta has this file: the small indexes, and what the admin host installs."""
    return path in INDEXES | UPDATE_INDEXES or path.split("/", 1)[0] in WHOLE_FOLDERS


def left_out(files: Iterable[_File], held: HaveList) -> frozenset[str]:
    """The paths of the files that the list has.

    Raises:
        BundleRefused: the list has the same sha256 with another size, so it is wrong.
    """
    sizes = {item.sha256: item.size for item in held.files}
    found = set()
    for file in files:
        size = sizes.get(file.sha256)
        if size is None or always_travels(file.path):
            continue
        if size != file.size:
            raise BundleRefused(
                f"the list of bundle {held.bundle[:_SHOWN]} gives {file.path} {size} bytes, and it "
                f"has {file.size}: the list was damaged or edited",
                hint="write the list again: appliance bundle have DIR",
            )
        found.add(file.path)
    return frozenset(found)
