"""A site whose Run:ai lost a project, a backup that has it, and the node that restores it."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

from appliance.model.backup.names import COUNTS, RUNAI_RELEASES
from appliance.model.backup.record import About, Manifest, Part
from appliance.model.backup.restoring.database_view import (
    Begun,
    Connection,
    DatabaseView,
    Dump,
    Kept,
    SeenDatabase,
    Version,
)
from appliance.model.site.settings import Site
from appliance.model.state.journal import Record
from tests import samples

BACKUP = "rack-20260301T020000Z"
FILE = "5b" * 32
SAVED = {"backend": {"projects": 3, "jobs": 40}, "keycloak": {"users": 2}}
NOW = {"backend": {"projects": 2, "jobs": 45, "new": 1}, "keycloak": {"users": 2}}
DUMPS = {name: f"dump of {name}".encode() for name in SAVED}
VERSIONS = {"runai-backend": Version("2.7.14", "deployed")}


def site() -> Site:
    return samples.site(1, 1)


def part_of(name: str) -> str:
    return f"runai/databases/{name}.sql"


class FakeBackup:
    """A backup of the site, its parts by name."""

    sha256 = FILE

    def __init__(self, **changes: Any) -> None:
        counts = {n: {"part": part_of(n), "rows": rows} for n, rows in SAVED.items()}
        counts["postgres"] = {"part": part_of("postgres"), "rows": {}}
        versions = {"runai-backend": {"version": "2.7.14", "status": "deployed"}}
        self.content = {
            COUNTS: json.dumps({"databases": {**counts, **changes.pop("counts", {})}}).encode(),
            RUNAI_RELEASES: json.dumps(changes.pop("versions", versions)).encode(),
            **{part_of(name): dump for name, dump in DUMPS.items()},
        }
        for name in changes.pop("without", ()):
            del self.content[name]
        self.about = replace(
            About(BACKUP, site().name, "2026-03-01T02:00:00+00:00", "r1", "0.1.0",
                  ("SHA256:" + "ab" * 32,), ("runai",)),
            **changes,
        )  # fmt: skip
        parts = (
            Part(name, hashlib.sha256(content).hexdigest(), len(content), "cp1")
            for name, content in self.content.items()
        )
        self.manifest = Manifest(self.about, "api.rack.test:6443", tuple(parts))

    def read(self, name: str, take: Callable[[IO[bytes]], None]) -> None:
        take(io.BytesIO(self.content[name]))


def journal_line() -> Record:
    """The record by which the journal knows the file."""
    told = f"{BACKUP}: 5 bytes, sha256 {FILE}, to /mnt"
    return Record(
        "0" * 8 + "-0000-0000-0000-" + "0" * 12, 1, "cluster backup create", "backup kept",
        ("cp1",), (told,), "2026-03-01T02:00:00+00:00", 1.0, "verified", "ada", "0.1.0",
    )  # fmt: skip


class FakeDatabases:
    """The node: what it holds, and what it was asked to do."""

    def __init__(self, **changes: Any) -> None:
        rows = changes.pop("rows", NOW)
        self.view = DatabaseView(
            fault="",
            free_bytes=1 << 40,
            versions=dict(VERSIONS),
            databases={n: SeenDatabase(1 << 20, dict(r)) for n, r in rows.items()},
            writers={"deployments.apps/backend": 2, "cronjobs.batch/cleaner": 1},
        )
        self.view = replace(self.view, **changes)
        self.whole: dict[str, set[str]] = {}
        self.swapped: set[tuple[str, str]] = set()
        self.record: Begun | None = None
        self.stopped = False
        self.done: list[str] = []
        self.happens: Callable[[str], None] = lambda _what: None

    def _act(self, what: str) -> None:
        self.happens(f"before {what}")
        self.done.append(what)

    def look(self, key: str, sums: Mapping[str, str]) -> DatabaseView:
        found: dict[str, SeenDatabase | None] = {}
        for name in sums:
            seen = self.view.databases.get(name)
            whole = name in self.whole.get(key, ())
            swapped = (key, name) in self.swapped
            known = seen and replace(seen, whole=whole, swapped=swapped)
            found[name] = known
        stopped = ("backend",) if self.stopped else ()
        return replace(self.view, databases=found, record=self.record, stopped=stopped)

    def save(self, key: str, names: Sequence[str], backup: tuple[str, str]) -> Sequence[str]:
        if self.record is None or self.record.key != key:
            self._act("save")
            self.record = Begun(key, backup[1])
            self.happens("after save")
        return tuple(f"/before/{name}.sql" for name in names)

    def load(self, key: str, dump: Dump, content: IO[bytes]) -> int:
        assert self.record is not None
        assert self.record.key == key
        assert content.read() == DUMPS[dump.name]
        assert dump.rows == SAVED[dump.name]
        self._act(f"load {dump.name}")
        self.whole.setdefault(key, set()).add(dump.name)
        self.happens(f"after load {dump.name}")
        return sum(dump.rows.values())

    def swap(self, key: str, names: Sequence[str]) -> float:
        self.happens("before stop")
        self.stopped = True
        self.happens("after stop")
        new = {(key, name) for name in names}
        if not new <= self.swapped:
            assert self.whole[key] == set(names)
            self._act("swap")
            self.swapped |= new
            self.whole[key].clear()
        self.happens("after swap")
        self.stopped = False
        return 30.0

    def check(self, key: str) -> Connection:
        assert self.record is not None
        assert (self.record.key, self.stopped) == (key, False)
        self._act("check")
        return Connection(checked=True, said="connected", shown=True, projects=3)

    def end(self, key: str) -> Kept:
        assert self.record is not None
        assert self.record.key == key
        self._act("end")
        self.record = replace(self.record, ended=True)
        return Kept({name: f"appliance_before_{name}" for _, name in sorted(self.swapped)})
