"""The journal on disk: immutable JSON records, with SQLite as their index.

``<site>/.appliance/journal/<run>-<sequence>.json`` is the truth; ``index.sqlite`` beside it is made
anew from the records whenever it is missing, older or broken.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from appliance.errors import NotHealthy
from appliance.model.journal import Record

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
        """Write one record; it is never changed again.

        Raises:
            FileExistsError: a record of that run and sequence exists already.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / f"{record.run}-{record.sequence:03d}.json"
        text = json.dumps(record.as_json(), indent=1, sort_keys=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        with closing(self._connect()) as index, index:
            self._insert(index, record)

    def read(self, *, limit: int | None = None) -> list[Record]:
        """The latest records, oldest first.

        Raises:
            NotHealthy: a record is not readable; the file is named.
        """
        if not self._directory.is_dir():
            return []
        with closing(self._connect()) as index:
            self._catch_up(index)
            rows = index.execute(
                "select document from record order by run desc, sequence desc limit ?",
                (-1 if limit is None else limit,),
            ).fetchall()
        return [Record.from_json(json.loads(row[0])) for row in reversed(rows)]

    def durations(self) -> dict[str, float]:
        """Step name -> seconds its last proven run took on this site."""
        return {
            record.step: record.took_seconds for record in self.read() if record.outcome == "proven"
        }

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._index)
        try:
            connection.execute(_TABLE)
        except sqlite3.DatabaseError:
            connection.close()
            self._index.unlink()
            connection = sqlite3.connect(self._index)
            connection.execute(_TABLE)
        self._index.chmod(0o600)
        return connection

    def _catch_up(self, index: sqlite3.Connection) -> None:
        known = {
            f"{run}-{sequence:03d}.json"
            for run, sequence in index.execute("select run, sequence from record")
        }
        with index:
            for path in self.paths():
                if path.name not in known:
                    self._insert(index, _parse(path))

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
                record = Record.from_json(json.loads(texts[name]))
                if name != f"{record.run}-{record.sequence:03d}.json":
                    raise ValueError("its name is not its run and sequence")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                broken.append(f"{name}: {error}")
                continue
            temporary = self._directory / f".{name}.new"
            temporary.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as stream:
                stream.write(texts[name])
            temporary.rename(self._directory / name)
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
    """The journal of a site; it can be read even when the site's files are broken."""
    return FileJournal(site_directory / ".appliance" / "journal")


def _parse(path: Path) -> Record:
    try:
        return Record.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise NotHealthy(
            f"the journal record {path} is not readable: {error}",
            hint=f"move it away to go on without it: mv {path} {path}.broken",
        ) from error
