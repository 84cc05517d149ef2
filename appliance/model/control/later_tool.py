"""Whether a later version of this tool wrote what a site keeps.

An earlier version would misread it, or undo what it cannot know. What must not be here: the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from appliance.errors import Refused
from appliance.model.documents.strict_json import NewerSchema, Unreadable, read_json
from appliance.model.documents.typed_json import Line, typed
from appliance.model.state.journal import SCHEMA, read_record

# Of a longer text nobody says that it is a version.
_LONGEST: Final = 64
UPGRADE: Final = "upgrade this tool: appliance self upgrade --bundle DIR"


@dataclass(frozen=True)
class Writer:
    """The version of this tool that wrote a document, and the machine that it ran on.

    Attributes:
        version: as the document says it; empty if it says none that can be read.
        host: the machine; empty if it is not known.
        where: the name of the document.
        is_later_schema: whether the document has a schema that this version does not know.
    """

    version: str
    host: str
    where: str
    is_later_schema: bool = False

    def sentence(self, own: str) -> str:
        """Who wrote it, and which version this is."""
        version = self.version or "of a later version"
        on = f" on {self.host}" if self.host else ""
        return f"written by appliance {version}{on}; this is {own}"


@dataclass(frozen=True)
class _Named:
    """What every schema of a record says of its writer."""

    tool_version: Line = ""
    host: Line = ""


def writer_of(name: str, content: str | bytes) -> Writer | None:
    """Who wrote a record of the journal; None if it is no record, which is its own fault.

    Args:
        name: of the record's file.
        content: the record.
    """
    try:
        record = read_record(name, content)
    except NewerSchema:
        named = _named(read_json(content))
        return Writer(named.tool_version, named.host, name, is_later_schema=True)
    except Unreadable:
        return None
    return Writer(record.tool_version, record.host, name)


def is_no_later(own: str, content: bytes) -> bool:
    """Whether a record says, in this version's schema, that no later version wrote it.

    Quick: most records are so, and a journal has thousands. Of what it refuses nothing is known.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return False
    version = document.get("tool_version")
    return isinstance(version, str) and not _is_later(version, version_of(own), own)


def find_later(own: str, writers: Iterable[Writer]) -> Writer | None:
    """The latest of the writers that are later than this version; None if none is.

    A version that cannot be read is no later one.
    """
    this = version_of(own)
    later = {one for one in writers if one.is_later_schema or _is_later(one.version, this, own)}
    return max(later, key=_order, default=None)


def refusal(writer: Writer, own: str, what: str) -> Refused:
    """The error of a changing command.

    Args:
        writer: a later version.
        own: this version.
        what: the site, in words.
    """
    return Refused(
        f"{what} was {writer.sentence(own)}: nothing was changed",
        hint=f"{UPGRADE}; if nobody has that version: appliance docs upgrade-this-tool",
        details=[f"found in {writer.where}"],
    )


@lru_cache(maxsize=64)
def version_of(text: str) -> Version | None:
    """The version that a text is, without its local part; None if it is none."""
    try:
        return Version(Version(text).public) if len(text) <= _LONGEST else None
    except InvalidVersion:
        return None


def _is_later(text: str, this: Version | None, own: str) -> bool:
    if text == own or this is None:
        return False
    found = version_of(text)
    return found is not None and found > this


def _order(writer: Writer) -> tuple[Version, str]:
    return (version_of(writer.version) or Version("0"), writer.where)


def _named(document: Any) -> _Named:
    """What can be read; a later schema may have given the fields another form."""
    found = {}
    for key in ("tool_version", "host"):
        try:
            found[key] = getattr(typed({key: document.get(key, "")}, _Named), key)
        except Unreadable:
            found[key] = ""
    return _Named(**found)
