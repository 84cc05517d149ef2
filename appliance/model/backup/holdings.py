"""Which backups a place holds, whole and otherwise, by its list of files and what lies beside them.

A place may be storage of others: every name and every document is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from appliance.model.backup.names import (
    PARTIAL_SUFFIX,
    REMOVING_SUFFIX,
    SIDECAR_SUFFIX,
    SUFFIX,
    backup_id,
    id_moment,
    is_backup_id,
    plain_words,
)
from appliance.model.backup.record import Sidecar, read_sidecar
from appliance.model.documents.strict_json import Unreadable

State = Literal["whole", "interrupted", "damaged", "being removed"]
MOST_LISTED: Final = 10_000


@dataclass(frozen=True)
class Held:
    """One backup in a place.

    Attributes:
        id: the file's name without its suffix.
        state: whether it is whole, as far as sizes tell.
        size: of the file, in bytes; 0 where it is gone.
        sidecar: what is said of it; None where nothing can be read.
        why: why it is not whole, in words.
    """

    id: str
    state: State
    size: int = 0
    sidecar: Sidecar | None = None
    why: str = ""

    @property
    def moment(self) -> float:
        """When it was begun, in seconds since 1970."""
        return id_moment(self.id) or 0.0

    @property
    def created(self) -> str:
        """The same to the minute, in UTC, for people."""
        return datetime.fromtimestamp(self.moment, UTC).strftime("%Y-%m-%d %H:%M")

    @property
    def keys(self) -> int:
        """How many public keys it is encrypted to; 0 where that is not known."""
        return len(self.sidecar.about.recipients) if self.sidecar else 0


def unfit(one: Held, site: str) -> str:
    """Why a backup is not to be used as one of this site, in words; empty: it is whole and ours."""
    if one.state != "whole" or one.sidecar is None:
        return one.why or one.state
    if one.sidecar.about.site != site:
        return f"it is of another site: {plain_words(one.sidecar.about.site, 100)}"
    if one.id != backup_id(site, one.moment):
        return "its name is not one of this site's"
    return ""


def sidecar_names(sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The files of a place that lie beside backups, the newest of :data:`MOST_LISTED`."""
    names = [name for name in sizes if _id_of(name, SIDECAR_SUFFIX)]
    return tuple(sorted(names, key=lambda name: _moment(name, SIDECAR_SUFFIX))[-MOST_LISTED:])


def holdings(sizes: Mapping[str, int], beside: Mapping[str, bytes | None]) -> tuple[Held, ...]:
    """The backups of a place, the oldest first.

    Args:
        sizes: file of the place -> its size in bytes.
        beside: the files of :func:`sidecar_names` -> content; None: it could not be read.
    """
    found: dict[str, Held] = {}
    for name in sizes:
        for suffix in (SUFFIX + PARTIAL_SUFFIX, SUFFIX, SIDECAR_SUFFIX, REMOVING_SUFFIX):
            one = _id_of(name, suffix)
            if one and one not in found:
                found[one] = _held(one, sizes, beside)
    return tuple(sorted(found.values(), key=lambda one: (one.moment, one.id))[-MOST_LISTED:])


def _id_of(name: str, suffix: str) -> str:
    stem = name.removesuffix(suffix)
    return stem if stem != name and is_backup_id(stem) else ""


def _moment(name: str, suffix: str) -> tuple[float, str]:
    return id_moment(name.removesuffix(suffix)) or 0.0, name


def _held(one: str, sizes: Mapping[str, int], beside: Mapping[str, bytes | None]) -> Held:
    size = sizes.get(one + SUFFIX)
    if size is None and one + REMOVING_SUFFIX in sizes:
        return Held(one, "being removed", why="the next backup to this place ends it")
    if one + SIDECAR_SUFFIX not in sizes:
        seen = sizes.get(one + SUFFIX + PARTIAL_SUFFIX, 0) if size is None else size
        return Held(one, "interrupted", seen, why="it was not written to its end")
    content, sidecar, why = beside.get(one + SIDECAR_SUFFIX), None, ""
    if content is None:
        return Held(one, "damaged", size or 0, why="the file beside it cannot be read")
    try:
        sidecar = read_sidecar(content)
    except Unreadable as error:
        return Held(one, "damaged", size or 0, why=f"the file beside it: {error}")
    if sidecar.about.id != one:
        sidecar, why = None, "the file beside it is of another backup"
    elif size is None:
        why = "the backup itself is gone"
    elif size != sidecar.size:
        why = f"it has {size} bytes, and had {sidecar.size}"
    return Held(one, "damaged" if why else "whole", size or 0, sidecar, why)
