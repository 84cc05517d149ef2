"""The place for backups that a text names: a folder, an SSH server, or a bucket."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.backup.places import FolderPlace, Place
from appliance.adapters.backup.store import BackupStore
from appliance.errors import ConfigError, NotHealthy, Refused
from appliance.model.backup.names import SUFFIX, is_backup_id
from appliance.model.site.recovery.backup_targets import (
    FolderTarget,
    NoTarget,
    SftpTarget,
    backup_target,
)

if TYPE_CHECKING:
    from appliance.model.site.recovery.backup_s3 import S3
    from appliance.model.site.settings import Site


@dataclass(frozen=True)
class Access:
    """What a site has to reach places elsewhere.

    Attributes:
        known_hosts: the host keys that the operator confirmed.
        private_key: path of the site's SSH key; None: the SSH agent's.
        secret: reads a secret of the vault by its name; None if it has none.
        s3: the S3-compatible server, its CA with a path of this machine; None: there is none.
    """

    known_hosts: Path
    private_key: str | None
    secret: Callable[[str], str | None]
    s3: S3 | None = None


def access_of(site: Site, secret: Callable[[str], str | None]) -> Access:
    """What a site has; the vault is not opened before it is needed."""
    s3 = site.settings.backup.s3 if site.settings.backup else None
    if s3 is not None and s3.ca is not None:
        s3 = s3.model_copy(update={"ca": str(site.directory / s3.ca)})
    return Access(site.known_hosts, site.settings.ssh.private_key, secret, s3)


def place_at(text: str, access: Access) -> Place:
    """The place that a text names; nothing is connected to.

    Raises:
        Refused: it names none, or the folder is not there.
    """
    try:
        target = backup_target(text)
    except NoTarget as error:
        raise Refused(error.problem, hint=error.remedy) from error
    if isinstance(target, FolderTarget):
        return FolderPlace(Path(target.path))
    if isinstance(target, SftpTarget):
        from appliance.adapters.backup.sftp_place import SftpPlace

        return SftpPlace(target, access.known_hosts, access.private_key)
    from appliance.adapters.backup.s3.place import S3Place

    if access.s3 is None:
        raise ConfigError(
            f"{target.told}: site.yml does not say which server has this bucket",
            hint="write backup: s3: endpoint; see appliance docs back-up-the-appliance",
        )
    return S3Place(target, access.s3, access.secret)


def store_at(text: str, access: Access) -> BackupStore:
    """The backups of a place, by its name in site.yml or after ``--to``.

    Raises:
        Refused: it names none, or the folder is not there.
    """
    return BackupStore(place_at(text, access))


def free_bytes_at(text: str) -> int | None:
    """How much a folder of this machine has free; None: the place does not say."""
    if is_remote(text):
        return None
    try:
        return shutil.disk_usage(text).free
    except OSError:
        return None


def is_remote(text: str) -> bool:
    """Whether a text is an address, of a place on another machine or of none that is known."""
    return "://" in text


def backup_at(text: str, access: Access) -> tuple[BackupStore, str]:
    """The place and the name of a backup, by its file here or in a place elsewhere.

    Raises:
        Refused: no backup has such a name, or it is in no place for backups.
        NotHealthy: it is not there.
    """
    folder, _, file = text.rpartition("/")
    name = file.removesuffix(SUFFIX)
    if name == file or not is_backup_id(name):
        raise Refused(
            f"{file[:100]!r} is not the name of a backup",
            hint="its name ends with .backup; to list them: appliance cluster backup list",
        )
    if is_remote(text):
        return store_at(folder, access), name
    path = Path(text)
    if not path.is_file():
        raise NotHealthy(f"{path} is not there", hint="see them: appliance cluster backup list")
    return BackupStore(FolderPlace(path.parent)), name
