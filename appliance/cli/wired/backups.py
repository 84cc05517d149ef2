"""What the commands around backups build of a site's session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from appliance.errors import ConfigError, NotHealthy
from appliance.model.backup.names import ANOTHER_BACKUP, COUNTS, IMAGE_RECORD, SNAPSHOT, SUFFIX
from appliance.model.backup.restoring.database_view import MOST_COUNTS_BYTES, SavedDump, read_saved
from appliance.model.backup.restoring.images import (
    MOST_RECORD_BYTES as MOST_IMAGE_RECORD_BYTES,
)
from appliance.model.backup.restoring.images import (
    is_what_its_name_says,
    parted,
    read_images,
    sentence,
)
from appliance.model.backup.volumes.record import MOST_RECORD_BYTES, is_record, read_record
from appliance.model.documents.strict_json import Unreadable

if TYPE_CHECKING:
    from appliance.adapters.backup.opened import BackupFile
    from appliance.adapters.backup.sources import NodeSources
    from appliance.adapters.backup.store import BackupStore
    from appliance.adapters.backup.targets import Access
    from appliance.cli.site_session import SiteSession
    from appliance.model.backup.record import Manifest, Part, Sidecar
    from appliance.model.backup.volumes.record import VolumeRecord
    from appliance.model.site.recovery.backup_settings import Backup
    from appliance.model.site.settings import Site
    from appliance.model.state.journal import Run
    from appliance.workflows.session.ports import Observer
    from appliance.workflows.session.session import Session


def settings_of(site: Site) -> Backup:
    """The section ``backup`` of a site.

    Raises:
        ConfigError: it has none.
    """
    if site.settings.backup is None:
        raise ConfigError(
            f"{site.name}: site.yml says neither who may open a backup, nor where one goes",
            hint="make a key: appliance cluster backup key FILE; then write backup: recipients "
            "and to; see appliance docs back-up-the-appliance",
        )
    return site.settings.backup


def store_of(site: Site, to: str | None) -> BackupStore:
    """The backups of the place that was named, else of the site's.

    Raises:
        ConfigError: neither is known.
        Refused: it is no place.
    """
    from appliance.adapters.backup.targets import store_at

    return store_at(to or settings_of(site).to, access_to(site))


def access_to(site: Site) -> Access:
    """What a site has to reach places elsewhere; the vault is opened once it is needed."""
    from appliance.adapters.backup.targets import access_of
    from appliance.adapters.site.vault import vault_of

    secrets = cache(vault_of(site))
    return access_of(site, lambda name: secrets().get(name))


def local_backup(site: Site, file: str, observer: Observer) -> AbstractContextManager[Path]:
    """A backup as a file of this machine, for as long as the block runs; see ``at_hand``."""
    from appliance.adapters.backup.fetching import at_hand

    return at_hand(file, lambda: access_to(site), observer.note)


@contextmanager
def opened_backup(
    site: Site, file: str, identity: Path, observer: Observer
) -> Iterator[BackupFile]:
    """A backup that was read to its end, opened by a key; one elsewhere is copied for the block.

    Raises:
        Refused: it is not the name of a backup, the key cannot be read, or there is no room.
        NotHealthy: it was interrupted, changed or cut, or the key does not open it.
        NodeUnreachable: the server does not answer.
    """
    from appliance.adapters.backup.age import read_identities
    from appliance.adapters.backup.opened import BackupFile

    # Before anything is copied.
    read_identities(identity)
    with local_backup(site, file, observer) as path:
        yield BackupFile(path, identity)


def sources_of(connected: SiteSession) -> NodeSources:
    """Where parts come from."""
    from appliance.adapters.backup.sources import NodeSources

    return NodeSources(connected.site, connected.nodes)


def backup_session(
    connected: SiteSession, store: BackupStore, observer: Observer, run: Run
) -> Session:
    """The ports of a backup."""
    session = connected.session(observer, run)
    return replace(session, backup_store=store, backup_sources=sources_of(connected))


@dataclass(frozen=True)
class Verified:
    """What a check of a backup found.

    Attributes:
        sidecar: the file beside it.
        known: whether this site's journal has its sha256.
        manifest: of what is in it; None: no key was given.
        restored: sentences on what was restored once.
    """

    sidecar: Sidecar
    known: bool
    manifest: Manifest | None = None
    restored: tuple[str, ...] = ()


def verify(
    connected: SiteSession, path: str, identity: Path | None, observer: Observer
) -> Verified:
    """Check a backup: without a key size and sha256, with one every part, and restores of it.

    Raises:
        NotHealthy: it is not whole, or what was restored is not what was saved.
        Refused: the key cannot be read.
        NodeUnreachable: no control-plane node restored it.
    """
    from appliance.adapters.backup.age import read_identities

    if identity is None:
        return _checked(connected, path, [], observer)
    identities = read_identities(identity)
    # With a key it is read several times: once from a place elsewhere, then from here.
    with local_backup(connected.site, path, observer) as file:
        return _checked(connected, str(file), identities, observer)


def _checked(
    connected: SiteSession, path: str, identities: Sequence[Any], observer: Observer
) -> Verified:
    from appliance.adapters.backup.reader import check_parts, read_parts
    from appliance.adapters.backup.targets import backup_at

    store, name = backup_at(path, access_to(connected.site))
    sidecar = store.check(name)
    known = _is_known(connected, sidecar.sha256)
    if not identities:
        return Verified(sidecar, known)
    observer.note("reading every part")
    with store.place.open(name + SUFFIX) as stream:
        manifest = check_parts(stream, identities, sidecar.sha256)
    if manifest.etcd is None:
        raise NotHealthy(
            f"{path}: it has no snapshot of etcd, so no cluster can be restored from it",
            hint=ANOTHER_BACKUP,
        )
    if manifest.about != sidecar.about:
        raise NotHealthy(
            f"{path}: the file beside it describes another backup than it holds",
            hint=ANOTHER_BACKUP,
        )
    trial = _Trial(connected, observer, manifest, name, known)
    with store.place.open(name + SUFFIX) as stream:
        read_parts(stream, identities, manifest, trial.take)
    return Verified(sidecar, known, manifest, trial.told())


def _is_known(connected: SiteSession, sha256: str) -> bool:
    from appliance.workflows.cluster.backup import known_backups

    return sha256 in known_backups(connected.journal)


class _Trial:
    """Restores of what is in a backup, each in a place of its own that goes again."""

    def __init__(
        self,
        connected: SiteSession,
        observer: Observer,
        manifest: Manifest,
        name: str,
        known: bool,
    ) -> None:
        self._site = connected.site
        self._sources = sources_of(connected)
        self._observer = observer
        self._manifest = manifest
        self._name = name
        self._known = known
        self._dumps: dict[str, SavedDump] = {}
        self._volumes: dict[str, VolumeRecord] = {}
        self._told: list[str] = []

    def take(self, part: Part, content: IO[bytes]) -> None:
        """One part of the backup.

        Raises:
            NotHealthy: what was restored is not what was saved.
            NodeUnreachable: it was not restored.
        """
        if not is_what_its_name_says(part):
            raise NotHealthy(f"{part.name} has another sha256 than its name", hint=ANOTHER_BACKUP)
        if part.name == SNAPSHOT:
            self._etcd(part, content)
        elif part.name == IMAGE_RECORD:
            self._images(content)
        elif part.name == COUNTS:
            self._dumps = _dumps_of(content)
        elif part.name in self._dumps:
            self._database(part, content)
        elif is_record(part.name):
            self._volume(part, content)
        elif part.name in self._volumes:
            self._archive(self._volumes[part.name], content)

    def told(self) -> tuple[str, ...]:
        """What was restored, in sentences."""
        if self._dumps and not self._known:
            left = "databases: not restored, because the journal does not know this file"
            return (*self._told, left)
        return tuple(self._told)

    def _etcd(self, part: Part, content: IO[bytes]) -> None:
        node, saved = self._site.control_plane[0], self._manifest.etcd
        self._observer.note(f"{node.name}: restoring the snapshot of etcd in a scratch instance")
        found = self._sources.try_snapshot(node, content, part.size, self._name)
        keys = ("revision", "keys", "digest", "sha256")
        if any(getattr(found, key) != getattr(saved, key, None) for key in keys):
            raise NotHealthy(f"{self._name}: the restored etcd does not hold what was saved")
        told = f"revision {found.revision}, {found.keys} keys"
        self._told.append(f"etcd: restored on {node.name}: {told}")

    def _database(self, part: Part, content: IO[bytes]) -> None:
        # Its statements run as the superuser of the server that runs: only what is ours does.
        if not self._known:
            return
        node = self._site.vendor_node
        self._observer.note(f"{node.name}: restoring {part.name} in a scratch database")
        found = self._sources.try_dump(node, content, part, self._dumps[part.name])
        if found.fault:
            raise NotHealthy(f"{part.name}: {found.fault}", hint=ANOTHER_BACKUP)
        self._told.append(f"{part.name}: {found.sentence()}")

    def _images(self, content: IO[bytes]) -> None:
        """What images need; the digest of each blob is compared when it comes."""
        try:
            saved = read_images(content.read(MOST_IMAGE_RECORD_BYTES + 1))
        except Unreadable as error:
            raise NotHealthy(f"{IMAGE_RECORD} cannot be read: {error}") from error
        whole, broken = parted(saved, self._manifest)
        self._told.append(f"images: compared: {sentence(whole, self._manifest)}")
        self._told += [f"images: not whole in the backup: {one.name}" for one in broken]

    def _volume(self, part: Part, content: IO[bytes]) -> None:
        try:
            found = read_record(content.read(MOST_RECORD_BYTES + 1), part.name)
        except Unreadable as error:
            raise NotHealthy(f"{part.name} cannot be read: {error}") from error
        self._volumes[found.archive] = found

    def _archive(self, record: VolumeRecord, content: IO[bytes]) -> None:
        from appliance.adapters.backup.volumes.listing import check_archive

        self._observer.note(f"reading the archive of {record.claim}")
        check_archive(content, record)
        self._told.append(f"{record.claim}: compared: {record.sentence()}")


def _dumps_of(content: IO[bytes]) -> dict[str, SavedDump]:
    """Part -> what the backup says of the dump in it.

    Raises:
        NotHealthy: it is no such list.
    """
    try:
        found = read_saved(content.read(MOST_COUNTS_BYTES + 1), None).databases
        return {one.part: SavedDump(name, one) for name, one in found.items()}
    except Unreadable as error:
        raise NotHealthy(
            f"the list of rows in the backup cannot be read: {error}", hint=ANOTHER_BACKUP
        ) from error
