"""What the node with the export says of volumes before a restore, read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from appliance.model.backup.names import plain_words
from appliance.model.backup.record import Sha256
from appliance.model.documents.typed_json import Line, typed

_MOST_KEPT: Final = 1000
Stamp = Annotated[str, Field(pattern=r"^[0-9]{8}T[0-9]{6}Z$")]


@dataclass(frozen=True)
class BegunRestore:
    """The record of the latest restore of volumes on the node.

    Attributes:
        key: the word of it.
        stamp: when it was begun.
        backup: the name of the backup.
        file_sha256: of the encrypted file.
        ended: it ended.
    """

    key: Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9._-]+$")]
    stamp: Stamp
    backup: Line
    file_sha256: Sha256
    ended: bool

    def is_open_of(self, sha256: str) -> bool:
        """Whether it is a restore of this file that did not end."""
        return not self.ended and self.file_sha256 == sha256


@dataclass(frozen=True)
class SeenVolume:
    """One volume on the node.

    Attributes:
        there: its folder is there.
        whole: this restore made the new folder beside it, and compared it.
        swapped: the new folder has its name already.
    """

    there: bool
    whole: bool
    swapped: bool


@dataclass(frozen=True)
class VolumesView:
    """What the node says.

    Attributes:
        free_bytes: in the export.
        record: of the latest restore; None: there is none.
        volumes: claim -> what is there.
        kept: names of folders that earlier restores kept.
    """

    free_bytes: Annotated[int, Field(ge=0, le=1 << 62)]
    record: BegunRestore | None
    volumes: Annotated[dict[Line, SeenVolume], Field(max_length=10_000)]
    kept: Annotated[tuple[str, ...], Field(max_length=_MOST_KEPT)] = ()


def read_view(document: dict[str, Any]) -> VolumesView:
    """What a node answered, read strictly.

    Raises:
        Unreadable: a field is missing or of another type.
    """
    return typed(document, VolumesView)


def read_kept(document: dict[str, Any]) -> Mapping[str, str]:
    """Claim -> the name of the folder that keeps what was there.

    Raises:
        LookupError, TypeError, ValueError: the node says something else.
    """
    found = dict(document["kept"])
    return {plain_words(str(claim), 300): plain_words(str(name)) for claim, name in found.items()}
