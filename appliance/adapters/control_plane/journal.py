"""The journal on disk: immutable JSON records, ``<site>/.appliance/journal/<run>-<sequence>.json``.

Records of other laptops arrive through the control-plane nodes. The strict reader of
:mod:`appliance.model.state.journal` reads each; an invalid record is skipped and reported.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import write_once
from appliance.adapters.site.state import JOURNAL, STATE, require_state
from appliance.model.control.later_tool import Writer, is_no_later, writer_of
from appliance.model.documents.strict_json import NewerSchema
from appliance.model.state.journal import MergeResult, Record, order_of, read_record

# The index of earlier versions beside the records, and SQLite's files for it.
_OLD_INDEXES: Final = ("index.sqlite", "index.sqlite-journal", "index.sqlite-wal")
_MOST_BYTES: Final = 8 << 20
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONGEST_LINE: Final = 1000
# The last step of the command of that name.
RESET: Final = "reset"
# The fields of a record that may have several lines.
_SENTENCES: Final = frozenset({"why", "error"})


def new_run_id() -> str:
    """A UUIDv7 (RFC 9562): 48 bits of milliseconds, then random; sorts by time."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76 | ((random >> 68) & 0xFFF) << 64
    value |= 0b10 << 62 | (random & ((1 << 62) - 1))
    return str(uuid.UUID(int=value))


class FileJournal:
    """Appends and reads the records of one site."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def append(self, record: Record) -> None:
        """Write one record, atomically; it is never changed again.

        Raises:
            FileExistsError: a record of this run and sequence exists already.
            OSError: the record could not be written.
        """
        self._forget_index()
        text = json.dumps(_readable(record.as_json()), indent=1, sort_keys=True)
        write_once(self._directory / record.file_name, text + "\n")

    def read(self, *, limit: int | None = None) -> list[Record]:
        """The latest records, oldest first; :meth:`skipped` names unreadable records."""
        records: list[Record] = []
        for path in reversed(self.paths()):
            if limit is not None and len(records) >= limit:
                break
            with suppress(OSError, ValueError):
                records.append(_read(path))
        return records[::-1]

    def skipped(self) -> tuple[str, ...]:
        """One sentence for each unreadable record; such a record stops no command."""
        return tuple(sentence for path in self._candidates() if (sentence := _fault(path)))

    def durations(self) -> dict[str, float]:
        """Step name -> seconds of its last verified run on this site, by the readable records."""
        return {
            record.step: record.took_seconds
            for record in self.read()
            if record.outcome == "verified"
        }

    def later_writers(self, own: str) -> Iterator[Writer]:
        """Who wrote the records that may be of a later version than ``own``, or of a later schema.

        Unreadable records are left out.
        """
        for path in self.paths():
            with suppress(OSError):
                content = read_plain(path, most_bytes=_MOST_BYTES)
                writer = None if is_no_later(own, content) else writer_of(path.name, content)
                if writer is not None:
                    yield replace(writer, where=str(path))

    def document(self, name: str) -> str | None:
        """The text of the record in a file; None if it is not readable or belongs elsewhere."""
        try:
            _read(self._directory / name)
            return (self._directory / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def paths(self) -> list[Path]:
        """The files with the name of a record, oldest first."""
        named = ((order_of(path.name), path) for path in self._candidates())
        return [path for _, path in sorted((order, path) for order, path in named if order)]

    def merge(self, texts: Mapping[str, str]) -> MergeResult:
        """Add records of another machine; existing records are not changed.

        A record of a later schema is skipped, and kept: no command of this version then changes
        the site.

        Args:
            texts: file name -> the record's document.
        """
        self._forget_index()
        existing = {path.name for path in self.paths()}
        skipped, new = [], 0
        for name in sorted(texts.keys() - existing):
            is_read = True
            try:
                read_record(name, texts[name])
            except ValueError as error:
                skipped.append(f"{name[:200]!r} on the control-plane nodes: {error}")
                is_read = False
                if not isinstance(error, NewerSchema):
                    continue
            # Another process may add the same record at the same time.
            with suppress(FileExistsError):
                write_once(self._directory / name, texts[name])
                new += is_read
        return MergeResult(new, tuple(skipped))

    def _candidates(self) -> list[Path]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(self._directory.glob("*.json"))
        return []

    def _forget_index(self) -> None:
        """Remove the index of earlier versions, which nothing reads."""
        for name in _OLD_INDEXES:
            with suppress(OSError):
                (self._directory / name).unlink()


def journal_of(site_directory: Path) -> FileJournal:
    """The journal of a site; readable even if the site's files are invalid.

    Raises:
        Refused: it belongs to another user.
    """
    require_state(site_directory)
    return FileJournal(site_directory / JOURNAL)


def founded(site_directory: Path) -> str:
    """The evidence in a site's state that it has a cluster, in words; empty without evidence.

    A cluster that ``reset`` took apart is none.

    Unreadable state is no evidence: changing commands refuse it separately.
    """
    kubeconfig = site_directory / STATE / "kubeconfig"
    with suppress(OSError):
        if kubeconfig.is_file():
            return f"{kubeconfig} is its kubeconfig"
        first: Record | None = None
        for record in FileJournal(site_directory / JOURNAL).read():
            if _made(record):
                first = first or record
            elif record.step == RESET and record.outcome == "verified":
                # The appliance was taken apart on purpose.
                first = None
        if first:
            return f"its journal has the verified step {first.step}, {first.started}"
    return ""


def _made(record: Record) -> bool:
    return record.step == "control_plane" and record.outcome == "verified"


def _read(path: Path) -> Record:
    """Read a record's file; a link, a pipe or a device is refused.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a record.
    """
    return read_record(path.name, read_plain(path, most_bytes=_MOST_BYTES))


def _fault(path: Path) -> str | None:
    try:
        _read(path)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        return f"the journal record {path} is not readable: {why}"
    return None


def _readable(value: Any, *, line: bool = True) -> Any:
    """A record without text that its reader refuses: lone surrogates, line breaks in a name."""
    if isinstance(value, str):
        valid = value.encode("utf-8", "replace").decode()
        return _CONTROL.sub(" ", valid)[:_LONGEST_LINE] if line else valid
    if isinstance(value, dict):
        return {
            _readable(key): _readable(item, line=key not in _SENTENCES)
            for key, item in value.items()
        }
    return [_readable(item, line=line) for item in value] if isinstance(value, tuple) else value
