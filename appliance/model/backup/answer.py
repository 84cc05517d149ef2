"""What a node says of the parts that it sends; it is judged before one of them is taken."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import Field

from appliance.model.backup.names import (
    CONTROL_PLANE,
    ETCD,
    IMAGE_BLOBS,
    IMAGE_RECORD,
    IMAGES,
    RUNAI,
    SNAPSHOT,
    VOLUMES,
    is_part_name,
    kind_of,
    plain_words,
)
from appliance.model.backup.record import (
    EtcdContent,
    KubernetesVersion,
    Missing,
    Part,
    PartName,
    Sha256,
    Size,
)
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.documents.typed_json import Line, typed

MOST_LINE_BYTES: Final = 16 << 20
# What breaks off is filled up to the size that was said: 1 TB of zeros takes an hour.
MOST_BYTES: Final = {ETCD: 1 << 35, RUNAI: 1 << 38, VOLUMES: 1 << 43, IMAGES: 1 << 42}
MOST_OTHER_BYTES: Final = 1 << 30
_MOST_PARTS: Final = 40_000


@dataclass(frozen=True)
class _Sent:
    name: PartName
    size: Size
    sha256: Sha256


@dataclass(frozen=True)
class _Lacking:
    what: Annotated[str, Field(max_length=2000)]
    why: Annotated[str, Field(max_length=2000)]


@dataclass(frozen=True)
class _Line:
    parts: Annotated[tuple[_Sent, ...], Field(max_length=_MOST_PARTS)]
    missing: Annotated[tuple[_Lacking, ...], Field(max_length=_MOST_PARTS)] = ()
    etcd: EtcdContent | None = None
    versions: Annotated[dict[Line, Line], Field(max_length=50)] = field(default_factory=dict)
    kubernetes: KubernetesVersion = ""


@dataclass(frozen=True)
class NodeAnswer:
    """What comes from a node.

    Attributes:
        parts: in the order in which their content follows.
        missing: what it could not give.
        etcd: what its snapshot holds.
        versions: of programs.
        kubernetes: the version in the manifest of its API server; empty: it has none.
    """

    parts: tuple[Part, ...]
    missing: tuple[Missing, ...] = ()
    etcd: EtcdContent | None = None
    versions: dict[str, str] = field(default_factory=dict)
    kubernetes: str = ""


def read_answer(line: bytes, node: str, kinds: Collection[str]) -> NodeAnswer:
    """Read the first line of a node.

    Args:
        line: what it sent.
        node: its name.
        kinds: that were asked for: no part of another one is taken.

    Raises:
        Unreadable: it is no such line, or lists what was not asked for.
    """
    found = typed(read_json(line, most_bytes=MOST_LINE_BYTES), _Line)
    for part in found.parts:
        _require_own(part, node, kinds)
    for kind in kinds:
        size = sum(part.size for part in found.parts if kind_of(part.name) == kind)
        if size > MOST_BYTES.get(kind, MOST_OTHER_BYTES):
            raise Unreadable(f"its parts of {kind} are larger than any of that kind")
    snapshot = next((part for part in found.parts if part.name == SNAPSHOT), None)
    if (found.etcd is None) != (snapshot is None):
        raise Unreadable("a snapshot of etcd and what it holds belong together")
    if found.etcd is not None and snapshot is not None and found.etcd.sha256 != snapshot.sha256:
        raise Unreadable("the snapshot of etcd is not the one that was examined")
    return NodeAnswer(
        tuple(Part(one.name, one.sha256, one.size, node) for one in found.parts),
        tuple(Missing(node, plain_words(one.what), plain_words(one.why)) for one in found.missing),
        found.etcd,
        dict(found.versions),
        found.kubernetes,
    )


def _require_own(part: _Sent, node: str, kinds: Collection[str]) -> None:
    if not is_part_name(part.name) or kind_of(part.name) not in kinds:
        raise Unreadable(f"{part.name[:100]!r} was not asked for")
    if kind_of(part.name) == CONTROL_PLANE and not part.name.startswith(f"{CONTROL_PLANE}/{node}/"):
        raise Unreadable(f"{part.name[:100]!r} is of another node")
    is_blob = kind_of(part.name) == IMAGES and part.name != IMAGE_RECORD
    if is_blob and part.name != IMAGE_BLOBS + part.sha256:
        raise Unreadable(f"{part.name[:100]!r} has another sha256 than its name")
