"""One site, a place for its backups, and what is around."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.adapters.backup.age import read_identities
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.reader import check_parts
from appliance.adapters.backup.store import BackupStore
from appliance.model.backup.record import Manifest
from appliance.model.backup.retention import Keep
from appliance.workflows.cluster.backup import (
    BackupRequest,
    BackupResult,
    create_backup,
)
from appliance.workflows.session.session import Session
from tests import samples
from tests.fake_documents import FakeDocuments
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeObserver, FakeRack, run
from tests.sessions import fake_session
from tests.unit.backup.fake_sources import FakeSources
from tests.unit.backup.samples import key


@dataclass
class Bench:
    """One site, a place for its backups, and what is around."""

    folder: Path
    recipient: str
    identity: Path
    sources: FakeSources
    journal: FakeJournal
    archive: FakeArchive
    documents: FakeDocuments
    clock: FakeClock
    observer: FakeObserver
    keep: Keep = field(default_factory=lambda: Keep(2, 1))
    masters: int = 3

    @property
    def desired(self) -> Any:
        return samples.desired(samples.site(self.masters, 2, runai={}))

    def create(self, place: FolderPlace | None = None, **more: Any) -> BackupResult:
        rack = FakeRack(self.desired)
        session: Session = fake_session(
            rack,
            self.journal,
            clock=self.clock,
            observer=self.observer,
            archive=self.archive,
            documents=self.documents,
            backup_store=BackupStore(place or FolderPlace(self.folder)),
            backup_sources=self.sources,
        )
        site = self.desired.site
        who = run("cluster backup create")
        request = BackupRequest(site, who, (self.recipient,), self.keep, "0.1.0", **more)
        return create_backup(request, session, lambda _: True)

    def manifest(self, name: str) -> Manifest:
        with (self.folder / f"{name}.backup").open("rb") as stream:
            return check_parts(stream, read_identities(self.identity))

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def bench_in(tmp_path: Path) -> Bench:
    """A bench whose backups are in a new folder."""
    folder = tmp_path / "place"
    folder.mkdir()
    identity, recipient = key(tmp_path)
    fakes = (FakeSources(), FakeJournal(), FakeArchive(), FakeDocuments(), FakeClock())
    return Bench(folder, recipient, identity, *fakes, FakeObserver())


class Killed(BaseException):
    """The process ends here."""
