"""What a backup has of one volume, and what the cluster says of its claim."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from appliance.model.backup.names import VOLUMES
from appliance.model.backup.record import Number, Sha256
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.documents.typed_json import Line, typed

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest

MOST_RECORD_BYTES: Final = 1 << 16
_CLAIM: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}/[a-z0-9][a-z0-9.-]{0,199}")
_RECORD: Final = "/volume.json"


def is_claim(text: str) -> bool:
    """Whether it is NAMESPACE/CLAIM, and may be the name of parts."""
    return _CLAIM.fullmatch(text) is not None


@dataclass(frozen=True, order=True)
class User:
    """A pod that has a claim.

    Attributes:
        pod: its name.
        owner: what makes it: KIND/NAME for kubectl; ``pod/NAME`` for one that nothing makes.
        namespace: of both; empty: that of the claim.
    """

    pod: str
    owner: str
    namespace: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of the cluster that is bound.

    Attributes:
        claim: ``namespace/name``.
        uid: of the claim.
        volume: the name of its PersistentVolume.
        server: of NFS; empty: it is another kind of volume.
        path: on that server; or what the volume is, in words.
        users: pods that have it, or mount its folder in another way, and did not end.
    """

    claim: str
    uid: str
    volume: str
    server: str
    path: str
    users: tuple[User, ...] = ()


@dataclass(frozen=True)
class VolumeRecord:
    """The document ``volumes/NAMESPACE/CLAIM/volume.json`` of a backup.

    Attributes:
        claim: ``namespace/name``.
        volume: the name of its PersistentVolume.
        uid: of the claim.
        folder: its folder in the export, when it was saved.
        archive: the part with its data.
        counts: kind of entry -> how many there are.
        bytes: of all files, holes included.
        data_bytes: of all files, without holes.
        digest: sha256 over all entries and their content.
        changed: files and folders that changed while they were read.
        left_out: sockets, devices and what could not be read.
    """

    claim: Annotated[str, Field(max_length=300)]
    volume: Line
    uid: Line
    folder: Annotated[str, Field(max_length=255)]
    archive: Line
    counts: Annotated[dict[Line, Number], Field(max_length=10)]
    bytes: Number
    data_bytes: Number
    digest: Sha256
    changed: Number = 0
    left_out: Number = 0

    @property
    def entries(self) -> int:
        """How many files, folders and links there are."""
        return sum(self.counts.values())

    def sentence(self) -> str:
        """What it holds, in words."""
        changed = f", {self.changed} files or folders changed while read" if self.changed else ""
        return f"{self.counts.get('file', 0)} files, {self.bytes} bytes{changed}"


def read_record(content: bytes, part: str) -> VolumeRecord:
    """Read the document strictly.

    Args:
        content: of the part.
        part: its name.

    Raises:
        Unreadable: it is no such document, or one of another volume.
    """
    document: Any = read_json(content, most_bytes=MOST_RECORD_BYTES)
    if not isinstance(document, dict):
        raise Unreadable("it is not a JSON object")
    found = typed(document, VolumeRecord)
    top = part.removesuffix(_RECORD)
    if top != f"{VOLUMES}/{found.claim}" or not is_claim(found.claim):
        raise Unreadable("it is of another volume than its name says")
    if found.archive != f"{top}/data.tar.gz":
        raise Unreadable("its archive is another one than its name says")
    return found


def record_parts(manifest: Manifest) -> tuple[str, ...]:
    """The parts of a backup that say what is known of its volumes."""
    parts = manifest.of_kind(VOLUMES)
    return tuple(part.name for part in parts if part.name.endswith(_RECORD))


def is_record(part: str) -> bool:
    """Whether a part says what is known of a volume."""
    return part.startswith(f"{VOLUMES}/") and part.endswith(_RECORD)
