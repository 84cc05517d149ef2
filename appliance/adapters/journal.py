"""The journal on disk: immutable JSON records, ``<site>/.appliance/journal/<run>-<sequence>.json``.

Records come from other laptops, too, by way of the control-plane nodes: each is read by the strict
reader of :mod:`appliance.model.journal`, and one that it does not take is left out and named.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from appliance.adapters.plain_files import read_plain
from appliance.adapters.site_state import JOURNAL, STATE, require_state
from appliance.adapters.state_files import write_once
from appliance.model.journal import Merged, Record, order_of, read_record

# What earlier versions kept beside the records, and what SQLite left of it.
_OLD_INDEXES: Final = ("index.sqlite", "index.sqlite-journal", "index.sqlite-wal")
_MOST_BYTES: Final = 8 << 20
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONGEST_LINE: Final = 1000
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
        """Write one record, whole or not at all; it is never changed again.

        Raises:
            FileExistsError: a record of that run and sequence exists already.
            OSError: it could not be written.
        """
        self._forget_index()
        text = json.dumps(_readable(record.as_json()), indent=1, sort_keys=True)
        write_once(self._directory / record.file_name, text + "\n")

    def read(self, *, limit: int | None = None) -> list[Record]:
        """The latest records, oldest first; :meth:`skipped` names those that are not readable."""
        found: list[Record] = []
        for path in reversed(self.paths()):
            if limit is not None and len(found) >= limit:
                break
            with suppress(OSError, ValueError):
                found.append(_read(path))
        return found[::-1]

    def skipped(self) -> tuple[str, ...]:
        """One sentence for each record that is not readable; no command is held up by it."""
        return tuple(sentence for path in self._candidates() if (sentence := _fault(path)))

    def durations(self) -> dict[str, float]:
        """Step name -> seconds its last proven run took on this site, by what can be read of it."""
        return {
            record.step: record.took_seconds for record in self.read() if record.outcome == "proven"
        }

    def document(self, name: str) -> str | None:
        """The text of the record in a file; None when it is not readable, or another's."""
        try:
            _read(self._directory / name)
            return (self._directory / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def paths(self) -> list[Path]:
        """The files that have a record's name, oldest first."""
        named = ((order_of(path.name), path) for path in self._candidates())
        return [path for _, path in sorted((order, path) for order, path in named if order)]

    def merge(self, texts: Mapping[str, str]) -> Merged:
        """Add records that another machine wrote; those that are here already stay as they are.

        Args:
            texts: file name -> the record's document.
        """
        self._forget_index()
        here = {path.name for path in self.paths()}
        skipped, new = [], 0
        for name in sorted(texts.keys() - here):
            try:
                read_record(name, texts[name])
            except ValueError as error:
                skipped.append(f"{name[:200]!r} on the control-plane nodes: {error}")
                continue
            # Another process may bring the same one at the same time.
            with suppress(FileExistsError):
                write_once(self._directory / name, texts[name])
                new += 1
        return Merged(new, tuple(skipped))

    def _candidates(self) -> list[Path]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(self._directory.glob("*.json"))
        return []

    def _forget_index(self) -> None:
        """Remove the index of earlier versions: nothing reads it, and the records are all of it."""
        for name in _OLD_INDEXES:
            with suppress(OSError):
                (self._directory / name).unlink()


def journal_of(site_directory: Path) -> FileJournal:
    """The journal of a site; it can be read even when the site's files are broken.

    Raises:
        Refused: another user keeps it from us.
    """
    require_state(site_directory)
    return FileJournal(site_directory / JOURNAL)


def founded(site_directory: Path) -> str:
    """What of a site's state here shows that it had a cluster, in words; empty where nothing does.

    State that may not be read shows nothing: commands that change anything refuse it themselves.
    """
    kubeconfig = site_directory / STATE / "kubeconfig"
    with suppress(OSError):
        if kubeconfig.is_file():
            return f"{kubeconfig} is its kubeconfig"
        proven = (
            record for record in FileJournal(site_directory / JOURNAL).read() if _made(record)
        )
        if first := next(proven, None):
            return f"its journal has the step {first.step} as proven, {first.started}"
    return ""


def _made(record: Record) -> bool:
    return record.step == "control_plane" and record.outcome == "proven"


def _read(path: Path) -> Record:
    """Read a record's file; a link, a pipe or a device is none.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds no record.
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
    """A record without what its own reader refuses: half a character, a line break in a name."""
    if isinstance(value, str):
        whole = value.encode("utf-8", "replace").decode()
        return _CONTROL.sub(" ", whole)[:_LONGEST_LINE] if line else whole
    if isinstance(value, dict):
        return {
            _readable(key): _readable(item, line=key not in _SENTENCES)
            for key, item in value.items()
        }
    return [_readable(item, line=line) for item in value] if isinstance(value, tuple) else value
