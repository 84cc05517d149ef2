"""What is known of Run:ai's databases before they are restored: in the backup, and on the server.

Both are read strictly. What must not be here: what follows from it
(:mod:`appliance.model.backup.restoring.databases`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field

from appliance.model.backup.record import Part, PartName, Sha256
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.documents.typed_json import Line, typed

MOST_COUNTS_BYTES: Final = 16 << 20
MOST_VERSIONS_BYTES: Final = 1 << 20
BACKEND: Final = "runai-backend"
_MOST_DATABASES: Final = 50
_MOST_TABLES: Final = 20_000
# As ``runai_dump`` knows names that pg_dump takes for names.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}")
# The server has them for the product's own work.
_OURS: Final = re.compile(r"appliance_(restore|before|verify)_[0-9a-f]{16}")

Number = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
Table = Annotated[str, Field(max_length=1000)]
Rows = Annotated[dict[Table, Number], Field(max_length=_MOST_TABLES)]
Digests = Annotated[dict[Table, Sha256], Field(max_length=_MOST_TABLES)]
Names = Annotated[tuple[Line, ...], Field(max_length=200)]


@dataclass(frozen=True)
class SavedDatabase:
    """A database in a backup.

    Attributes:
        part: the name of the part with its dump.
        rows: table -> number of its rows in the dump.
        digests: table -> digest of these rows in any order; None: an earlier tool wrote none.
    """

    part: PartName
    rows: Rows
    digests: Digests | None = None


@dataclass(frozen=True)
class SavedDump:
    """A database in a backup, by its name."""

    name: str
    database: SavedDatabase


@dataclass(frozen=True)
class TriedDump:
    """What a dump held when it was restored once.

    Attributes:
        tables, rows: their numbers.
        digests: whether digests were compared, too; otherwise rows alone.
        fault: in what it differs from what the backup says; empty: in nothing.
    """

    tables: Number
    rows: Number
    digests: bool = False
    fault: Line = ""

    def sentence(self) -> str:
        """What was restored and compared."""
        told = f"restored: {self.tables} tables, {self.rows} rows"
        if self.digests:
            return f"{told}, compared by counts and digests"
        return f"{told}, compared by counts alone: an earlier tool wrote no digests into the backup"


@dataclass(frozen=True)
class Version:
    """A release of Helm: the version of Run:ai, and the release's state."""

    version: Line
    status: Line


@dataclass(frozen=True)
class _Counts:
    databases: Annotated[dict[Line, SavedDatabase], Field(max_length=_MOST_DATABASES)]


@dataclass(frozen=True)
class _Versions:
    releases: Annotated[dict[Line, Version], Field(max_length=20)]


@dataclass(frozen=True)
class SeenDatabase:
    """A database on the server.

    Attributes:
        bytes: its size.
        rows: table -> number of its rows now.
        whole: the dump of this restore was restored beside it, and compared.
        swapped: it is the restored one already.
    """

    bytes: Number
    rows: Rows
    whole: bool = False
    swapped: bool = False


@dataclass(frozen=True)
class Begun:
    """The latest restore that was begun on the node.

    Attributes:
        key: its word.
        file_sha256: of the encrypted backup.
        ended: it came to its end.
    """

    key: Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,150}$")]
    file_sha256: Line
    ended: bool = False

    def is_open_of(self, sha256: str) -> bool:
        """Whether it is of this file, and did not end: the same command goes on with it."""
        return not self.ended and self.file_sha256 == sha256


@dataclass(frozen=True)
class DatabaseView:
    """What the node with kubectl says of the backend and its databases.

    Attributes:
        fault: why the server cannot be asked; empty where it can.
        free_bytes: on the node, where dumps go.
        versions: Helm release -> its version.
        databases: those that were asked for; None: not there.
        writers: workload -> its pods, of everything that may write.
        stopped: workloads that a restore stopped, and did not start again.
        kept: databases of ours on the server.
        record: of the latest restore there.
    """

    fault: Line
    free_bytes: Number
    versions: Annotated[dict[Line, Version], Field(max_length=20)]
    databases: Annotated[dict[Line, SeenDatabase | None], Field(max_length=_MOST_DATABASES)]
    writers: Annotated[dict[Line, Number], Field(max_length=500)]
    stopped: Names = ()
    kept: Names = ()
    record: Begun | None = None


@dataclass(frozen=True)
class SavedState:
    """What a backup has of Run:ai's databases.

    Attributes:
        databases: by name.
        versions: Helm release -> its version; empty where the backup does not say it.
    """

    databases: Mapping[str, SavedDatabase] = field(default_factory=dict)
    versions: Mapping[str, Version] = field(default_factory=dict)


@dataclass(frozen=True)
class Dump:
    """A dump that is restored.

    Attributes:
        name: of the database.
        part: its size and sha256.
        rows: table -> number of its rows.
        same_form: it is refused where the database has tables of another form now.
    """

    name: str
    part: Part
    rows: Mapping[str, int]
    same_form: bool = False


@dataclass(frozen=True)
class Connection:
    """What was seen of Run:ai after a restore.

    Attributes:
        checked: somebody logged in.
        why: the reason where nobody did.
        said: what the backend says of the cluster.
        shown: that is the word for a connection.
        projects: how many the backend lists.
    """

    checked: bool = False
    why: str = ""
    said: str = ""
    shown: bool = False
    projects: int = 0


@dataclass(frozen=True)
class Kept:
    """What is on the server at the end.

    Attributes:
        old: database -> the name under which its old rows stay.
        removed: databases that earlier restores kept, and that are gone.
    """

    old: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


def is_name(name: str) -> bool:
    """Whether a database of this name may be restored."""
    return _NAME.fullmatch(name) is not None


def is_ours(name: str) -> bool:
    """Whether a backup has it because a restore or a check was under way."""
    return _OURS.fullmatch(name) is not None


def read_saved(counts: bytes, releases: bytes | None) -> SavedState:
    """What the parts ``runai/counts.json`` and ``runai/releases.json`` say.

    Raises:
        Unreadable: one is no such document.
    """
    found = typed(read_json(counts, most_bytes=MOST_COUNTS_BYTES), _Counts)
    if releases is None:
        return SavedState(found.databases)
    listed = read_json(releases, most_bytes=MOST_VERSIONS_BYTES)
    return SavedState(found.databases, typed({"releases": listed}, _Versions).releases)


def read_view(document: Any) -> DatabaseView:
    """What a node answered.

    Raises:
        Unreadable: a field is missing or of another type.
    """
    if not isinstance(document, dict):
        raise Unreadable("it is no object")
    # A node without a record says so by an empty object.
    return typed({**document, "record": document.get("record") or None}, DatabaseView)
