"""A backup that is restored: it is read to its end and compared before any of it is used.

Plain text exists in memory only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from appliance.adapters.backup.age import read_identities
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.reader import check_file, check_parts, read_parts, read_pieces
from appliance.errors import NotHealthy, Refused
from appliance.model.backup.names import ANOTHER_BACKUP, SEE_BACKUPS, SUFFIX, is_backup_id

if TYPE_CHECKING:
    from appliance.model.backup.record import Part


class _Taken(Exception):
    """The part that was wanted was read, and its sum is right."""


class BackupFile:
    """One file, opened by a key.

    Attributes:
        sha256: of the encrypted file.
        manifest: what it holds.

    Args:
        file: ``ID.backup``, with ``ID.backup.json`` beside it.
        identity: the operator's private key: of age, or an OpenSSH ed25519 key.

    Raises:
        Refused: the name is none of a backup, or the key cannot be read.
        NotHealthy: it was interrupted, changed or cut, or the key does not open it.
    """

    def __init__(self, file: Path, identity: Path) -> None:
        self._name = file.name
        backup = file.name.removesuffix(SUFFIX)
        if backup == file.name or not is_backup_id(backup):
            raise Refused(
                f"{file} is not a backup: its name is not SITE-YYYYMMDDTHHMMSSZ{SUFFIX}",
                hint=SEE_BACKUPS,
            )
        self._place = FolderPlace(file.parent)
        self._identities = read_identities(identity)
        sidecar = check_file(self._place, backup)
        self.sha256 = sidecar.sha256
        with self._place.open(self._name) as stream:
            self.manifest = check_parts(stream, self._identities, self.sha256)
        if self.manifest.about != sidecar.about:
            raise NotHealthy(
                f"{file}: the file beside it describes another backup than it holds",
                hint=ANOTHER_BACKUP,
            )

    def read_all(self, take: Callable[[Part, IO[bytes]], None]) -> None:
        """Hand over every part, in the order of the backup.

        Raises:
            NotHealthy: the file changed since it was checked.
        """
        with self._place.open(self._name) as stream:
            read_parts(stream, self._identities, self.manifest, take)

    def read(self, name: str, take: Callable[[IO[bytes]], None]) -> None:
        """Hand over the content of one part; what comes after it is not read.

        Raises:
            NotHealthy: the file changed since it was checked.
        """
        wanted = self.manifest.part(name)
        if wanted is None:
            raise AssertionError(f"the backup has no part {name}")
        seen = False

        def choose(part: Part, stream: IO[bytes]) -> None:
            nonlocal seen
            if seen:
                raise _Taken
            if part.name == name:
                take(stream)
                seen = True

        with suppress(_Taken), self._place.open(self._name) as stream:
            read_parts(stream, self._identities, self.manifest, choose)

    def pieces(self, names: Collection[str]) -> Iterator[bytes]:
        """The content of some parts, one after the other, in the order of the backup.

        Raises:
            NotHealthy: the file changed since it was checked.
        """
        with self._place.open(self._name) as source:
            yield from read_pieces(source, self._identities, self.manifest, names)
