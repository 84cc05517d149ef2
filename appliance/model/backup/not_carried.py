"""What a restore onto new machines brought back, kind by kind, and what it could not.

Only kinds that a backup declares are compared. Controllers change objects as soon as the API
answers, so a difference is told, and is no failure: etcd itself was compared key by key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from appliance.model.backup.record import Sha256
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.documents.typed_json import Line, typed

MOST_BYTES: Final = 8 << 20
_MOST_KINDS: Final = 2000
Count = Annotated[int, Field(ge=0, le=1 << 40)]


class VolumeData(NamedTuple):
    """A volume that etcd brought back.

    Attributes:
        claim: ``namespace/name`` of the claim that has it; empty: none.
        place: where its data has to be: SERVER:PATH, NODE:PATH or a driver's name for it.
    """

    claim: str
    place: str


@dataclass(frozen=True)
class KindDigest:
    """How many objects of a kind there are, and a sha256 over them."""

    count: Count
    sha256: Sha256


@dataclass(frozen=True)
class ObjectDigest:
    """The document ``objects/digest.json`` of a backup.

    Attributes:
        kinds: kind -> its digest.
        not_carried: kinds that are never compared.
        unread: kind -> why it was not read.
    """

    kinds: Annotated[dict[Line, KindDigest], Field(max_length=_MOST_KINDS)]
    not_carried: Annotated[tuple[Line, ...], Field(max_length=_MOST_KINDS)] = ()
    unread: Annotated[dict[Line, Line], Field(max_length=_MOST_KINDS)] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Backup and cluster, kind by kind.

    Attributes:
        same: kinds whose objects are the same.
        differ: kind -> how many there were and are.
        not_carried: kinds that are not compared, as a cluster makes them anew.
    """

    same: tuple[str, ...] = ()
    differ: dict[str, tuple[int, int]] = field(default_factory=dict)
    not_carried: tuple[str, ...] = ()


def read_digest(content: bytes) -> ObjectDigest | None:
    """Read the document strictly; None: it is none."""
    try:
        document = read_json(content, most_bytes=MOST_BYTES)
        return typed(document, ObjectDigest) if isinstance(document, dict) else None
    except (Unreadable, ValueError):
        return None


def compare(before: ObjectDigest | None, now: ObjectDigest | None) -> Comparison | None:
    """Compare the kinds that the backup has; None: one of both is not known."""
    if before is None or now is None:
        return None
    none = KindDigest(0, "0" * 64)
    found = {kind: (one, now.kinds.get(kind, none)) for kind, one in sorted(before.kinds.items())}
    return Comparison(
        tuple(kind for kind, (was, has) in found.items() if was == has),
        {kind: (was.count, has.count) for kind, (was, has) in found.items() if was != has},
        before.not_carried,
    )
