"""The journal on disk: immutable JSON records, with SQLite as their index.

``<site>/.appliance/journal/<run>-<sequence>.json`` is the truth; ``index.sqlite`` beside it is made
anew from the records whenever it is missing, older or broken. Where none can be had, as another
process has it or the disk is full, the records themselves are read.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from appliance.adapters.site_state import JOURNAL, require_state
from appliance.errors import NotHealthy
from appliance.model.journal import Record

Found = TypeVar("Found")
# How long another process may have the index, which takes milliseconds when all is well.
LOCKED_SECONDS = 0.5
# What a document raises that is no record.
_NO_RECORD = (ValueError, KeyError, TypeError, AttributeError)
_TABLE = """
create table if not exists record (
    run text not null, sequence integer not null, command text not null, step text not null,
    nodes text not null, started text not null, took_seconds real not null, outcome text not null,
    operator text not null, document text not null, primary key (run, sequence)
) strict
"""


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
        self._index = directory / "index.sqlite"

    def append(self, record: Record) -> None:
        """Write one record, whole or not at all; it is never changed again.

        Raises:
            FileExistsError: a record of that run and sequence exists already.
            OSError: it could not be written.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps(record.as_json(), indent=1, sort_keys=True)
        _write_once(self._directory / _name(record), text + "\n")
        self._indexed(lambda index: self._insert(index, record))

    def read(self, *, limit: int | None = None) -> list[Record]:
        """The latest records, oldest first.

        Raises:
            NotHealthy: a record is not readable; the file is named.
        """
        records, broken = self._look(limit)
        if broken:
            raise broken[0]
        return records

    def durations(self) -> dict[str, float]:
        """Step name -> seconds its last proven run took on this site, by what can be read of it."""
        records, _ = self._look(None)
        return {
            record.step: record.took_seconds for record in records if record.outcome == "proven"
        }

    def document(self, name: str) -> str | None:
        """The text of the record in a file; None when it is not readable, or another's."""
        try:
            text = (self._directory / name).read_text(encoding="utf-8")
            _record_of(name, text)
        except (OSError, *_NO_RECORD):
            return None
        return text

    def _look(self, limit: int | None) -> tuple[list[Record], list[NotHealthy]]:
        """The latest records, and what is said of each that is not readable."""
        if not self._directory.is_dir():
            return [], []

        def look(index: sqlite3.Connection) -> tuple[list[Record], list[NotHealthy]]:
            broken = self._catch_up(index)
            rows = index.execute(
                "select document from record order by run desc, sequence desc limit ?",
                (-1 if limit is None else limit,),
            ).fetchall()
            return [Record.from_json(json.loads(row[0])) for row in reversed(rows)], broken

        return self._indexed(look)

    def _indexed(self, use: Callable[[sqlite3.Connection], Found], *, anew: bool = False) -> Found:
        """Use the index, made anew where it is broken; one in memory where there can be none.

        One that is only locked is another process's, and stays.
        """
        try:
            with closing(sqlite3.connect(self._index, timeout=LOCKED_SECONDS)) as index, index:
                index.execute(_TABLE)
                self._index.chmod(0o600)
                return use(index)
        except (sqlite3.DatabaseError, OSError, *_NO_RECORD) as error:
            if not (anew or _is_locked(error)):
                self._forget_index()
                return self._indexed(use, anew=True)
        with closing(sqlite3.connect(":memory:")) as index:
            index.execute(_TABLE)
            return use(index)

    def _forget_index(self) -> None:
        # With a broken one's rollback journal SQLite would spoil the next.
        for path in (self._index, self._index.with_name(f"{self._index.name}-journal")):
            with suppress(OSError):
                path.unlink()

    def _catch_up(self, index: sqlite3.Connection) -> list[NotHealthy]:
        """Take what the index lacks; what is said of each record that is not readable."""
        known = {
            f"{run}-{sequence:03d}.json"
            for run, sequence in index.execute("select run, sequence from record")
        }
        broken = []
        for path in self.paths():
            if path.name not in known:
                try:
                    self._insert(index, _parse(path))
                except NotHealthy as error:
                    broken.append(error)
        return broken

    def paths(self) -> Iterator[Path]:
        """The records' files, oldest first."""
        return iter(sorted(self._directory.glob("*.json")))

    def merge(self, texts: Mapping[str, str]) -> int:
        """Add records that another machine wrote; those that are here already stay as they are.

        Args:
            texts: file name -> the record's document.

        Returns:
            How many were new.

        Raises:
            NotHealthy: a document is no record; the others are kept.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        here = {path.name for path in self.paths()}
        broken, new = [], 0
        for name in sorted(texts.keys() - here):
            try:
                _record_of(name, texts[name])
            except _NO_RECORD as error:
                broken.append(f"{name}: {error}")
                continue
            # Another process may bring the same one at the same time.
            with suppress(FileExistsError):
                _write_once(self._directory / name, texts[name])
                new += 1
        if broken:
            raise NotHealthy(
                f"the control-plane nodes hold a journal record that is not readable: {broken[0]}",
                hint="the others were taken; see them: appliance history",
                details=broken[1:],
            )
        return new

    @staticmethod
    def _insert(index: sqlite3.Connection, record: Record) -> None:
        index.execute(
            "insert or ignore into record values (?,?,?,?,?,?,?,?,?,?)",
            (
                record.run,
                record.sequence,
                record.command,
                record.step,
                " ".join(record.nodes),
                record.started,
                record.took_seconds,
                record.outcome,
                record.operator,
                json.dumps(record.as_json(), sort_keys=True),
            ),
        )


def journal_of(site_directory: Path) -> FileJournal:
    """The journal of a site; it can be read even when the site's files are broken.

    Raises:
        Refused: another user keeps it from us.
    """
    require_state(site_directory)
    return FileJournal(site_directory / JOURNAL)


def _name(record: Record) -> str:
    return f"{record.run}-{record.sequence:03d}.json"


def _record_of(name: str, text: str) -> Record:
    """Read the document of that name; raises one of ``_NO_RECORD`` where it is none."""
    record = Record.from_json(json.loads(text))
    if name != _name(record):
        raise ValueError("its name is not its run and sequence")
    return record


def _write_once(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all, and is never put over another.

    Raises:
        FileExistsError: there is one of that name.
        OSError: it could not be written; nothing of it is left.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        _give_name(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    # The name, too; a file system that cannot promise it is no reason to fail.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _give_name(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # Not every file system has links. Names hold a random number: nobody else makes this one.
        if path.exists():
            raise FileExistsError(f"{path} exists") from None
        temporary.rename(path)


def _is_locked(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _parse(path: Path) -> Record:
    """Read a record's file.

    Raises:
        NotHealthy: it is not readable.
    """
    try:
        return Record.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, *_NO_RECORD) as error:
        raise NotHealthy(
            f"the journal record {path} is not readable: {error}",
            hint=f"move it away to go on without it: mv {path} {path}.broken",
        ) from error
