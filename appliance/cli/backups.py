"""What the commands around backups build of a site's session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from appliance.cli.screen.render import show_warnings
from appliance.errors import ConfigError, NotHealthy, PreflightFailed

if TYPE_CHECKING:
    from appliance.adapters.backup.sources import NodeSources
    from appliance.adapters.backup.store import BackupStore
    from appliance.cli.site_session import SiteSession
    from appliance.model.backup.record import Manifest, Part, Sidecar
    from appliance.model.site.backup_settings import Backup
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
    from appliance.adapters.backup.store import store_at

    return store_at(to or settings_of(site).to)


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


def ask_for_backup(connected: SiteSession, what: str, *, accepted: bool, dry_run: bool) -> None:
    """Refuse what may lose data while the site asks for backups and has no fresh one.

    Args:
        connected: the site.
        what: what is about to be done.
        accepted: the operator goes on without one.
        dry_run: nothing is done, so it is only said.

    Raises:
        PreflightFailed: there is no fresh one; nothing was changed.
    """
    from appliance.workflows.cluster.backups.freshness import require_fresh_backup

    if connected.site.settings.backup is None:
        return
    try:
        require_fresh_backup(connected.site, connected.session(), what)
    except PreflightFailed as error:
        if not (accepted or dry_run):
            raise
        show_warnings([error.message])


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
    connected: SiteSession, path: Path, identity: Path | None, observer: Observer
) -> Verified:
    """Check a backup: without a key size and sha256, with one every part, and a restore of etcd.

    Raises:
        NotHealthy: it is not whole, or what was restored is not what was saved.
        Refused: the key cannot be read.
        NodeUnreachable: no control-plane node restored it.
    """
    from appliance.adapters.backup.age import read_identities
    from appliance.adapters.backup.reader import check_parts
    from appliance.adapters.backup.store import backup_at
    from appliance.model.backup.names import SUFFIX

    store, name = backup_at(path)
    identities = read_identities(identity) if identity else []
    sidecar = store.check(name)
    known = _is_known(connected, sidecar.sha256)
    if not identities:
        return Verified(sidecar, known)
    observer.note("reading every part")
    with store.place.open(name + SUFFIX) as stream:
        manifest = check_parts(stream, identities)
    if manifest.about != sidecar.about:
        raise NotHealthy(
            f"{path}: the file beside it describes another backup than it holds",
            hint="take another one: appliance cluster backup list",
        )
    told = _restore_etcd(connected, store, name, (identities, manifest), observer)
    return Verified(sidecar, known, manifest, (told,))


def _is_known(connected: SiteSession, sha256: str) -> bool:
    return any(sha256 in line for record in connected.journal.read() for line in record.why)


def _restore_etcd(
    connected: SiteSession,
    store: BackupStore,
    name: str,
    opened: tuple[list[Any], Manifest],
    observer: Observer,
) -> str:
    from appliance.adapters.backup.reader import read_parts
    from appliance.model.backup.names import SNAPSHOT, SUFFIX
    from appliance.model.backup.record import EtcdContent

    identities, manifest = opened
    saved = manifest.etcd
    if saved is None:
        raise NotHealthy(f"{name}: it holds no snapshot of etcd")
    node = connected.site.control_plane[0]
    observer.note(f"{node.name}: restoring the snapshot of etcd in a scratch instance")
    sources, found = sources_of(connected), list[EtcdContent]()

    def take(part: Part, content: IO[bytes]) -> None:
        if part.name == SNAPSHOT:
            found.append(sources.try_snapshot(node, content, part.size, name))

    with store.place.open(name + SUFFIX) as stream:
        read_parts(stream, identities, manifest, take)
    (restored,) = found
    keys = ("revision", "keys", "digest", "sha256")
    if [getattr(restored, key) for key in keys] != [getattr(saved, key) for key in keys]:
        raise NotHealthy(f"{name}: the restored etcd holds something else than was saved")
    return f"etcd: restored on {node.name}: revision {restored.revision}, {restored.keys} keys"
