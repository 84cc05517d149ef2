"""The backups of one place: listed, written, checked, and removed with evidence."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final

from appliance.adapters.backup.places import Place
from appliance.adapters.backup.reader import check_file, read_beside
from appliance.adapters.backup.writer import BackupWriter, fingerprints, new_backup
from appliance.errors import ApplianceError, CommandFailed, Refused
from appliance.model.backup.holdings import Held, holdings, sidecar_names
from appliance.model.backup.names import (
    PARTIAL_SUFFIX,
    REMOVING_SUFFIX,
    SIDECAR_SUFFIX,
    SUFFIX,
    is_backup_id,
)
from appliance.model.backup.record import MOST_SIDECAR_BYTES, Sidecar

# Of all files beside backups together.
MOST_BESIDE_BYTES: Final = 64 << 20
MOST_SECONDS: Final = 300.0
_SHA256_BYTES: Final = 64


class BackupStore:
    """The backups of one place.

    Args:
        place: where they are kept.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def told(self) -> str:
        """The place, as messages name it."""
        return self.place.told

    def held(self) -> tuple[Held, ...]:
        """Every backup in the place, the oldest first, whole or not, as far as sizes tell.

        Raises:
            CommandFailed: the place cannot be read.
        """
        sizes = self.place.sizes()
        beside, left = {}, MOST_BESIDE_BYTES
        until = time.monotonic() + MOST_SECONDS
        # Storage of others may hold thousands of the largest size: the newest are read.
        for name in reversed(sidecar_names(sizes)):
            if time.monotonic() > until:
                raise self._late(f"it took longer than {MOST_SECONDS:.0f} s")
            left -= sizes[name]
            beside[name] = self._beside(name) if left >= 0 else None
        return holdings(sizes, beside)

    def _beside(self, name: str) -> bytes | None:
        try:
            return self.place.read(name, most_bytes=MOST_SIDECAR_BYTES)
        except TimeoutError as error:
            # Every other file would take as long.
            raise self._late(str(error)) from error
        except OSError:
            return None

    def _late(self, why: str) -> CommandFailed:
        return CommandFailed(
            f"{self.told} cannot be read: {why}",
            hint="see what is wrong there, or name another place: --to PLACE",
        )

    def new(
        self, backup: str, recipients: Sequence[str], moment: float
    ) -> AbstractContextManager[BackupWriter]:
        """Write a backup; it gets its name when the block ends without an error."""
        return new_backup(self.place, backup, recipients, moment)

    def fingerprints(self, recipients: Sequence[str]) -> tuple[str, ...]:
        """The fingerprints of public keys."""
        return fingerprints(recipients)

    def check(self, backup: str) -> Sidecar:
        """Read a backup once, and compare it with the file beside it.

        Raises:
            NotHealthy: it is not what was written.
        """
        return check_file(self.place, backup)

    def beside(self, backup: str) -> Sidecar:
        """What the file beside a backup says.

        Raises:
            NotHealthy: there is none, or it cannot be read.
        """
        return read_beside(self.place, backup)

    def remove(self, backup: str, site: str) -> None:
        """Remove a whole backup of a site; nothing else.

        Raises:
            NotHealthy: it is not whole; it stays.
            Refused: it is of another site; it stays.
            OSError: it is there still.
        """
        sidecar = self.check(backup)
        if sidecar.about.site != site:
            raise Refused(f"{backup} is a backup of another site: it stays")
        # Whoever is killed now leaves word of what was going on; a full disk must not prevent it.
        with suppress(FileNotFoundError):
            self.place.remove(backup + REMOVING_SUFFIX + PARTIAL_SUFFIX)
        with suppress(ApplianceError), self.place.new(backup + REMOVING_SUFFIX) as note:
            note.write(sidecar.sha256.encode())
        self.place.remove(backup + SUFFIX)
        self._remove_beside(backup)

    def end_removal(self, backup: str, known: Collection[str]) -> bool:
        """Remove what lies beside a backup whose own file a killed run removed.

        Args:
            backup: its name.
            known: sha256 of the backups that the journal of the site has.

        Returns:
            Whether it was one of this site.

        Raises:
            Refused: it is not the name of a backup, or its file is there.
            OSError: something is there still.
        """
        if not is_backup_id(backup) or not self._lacks(backup + SUFFIX):
            raise Refused(f"{backup[:100]!r} is no backup whose file is gone")
        note = self.place.read(backup + REMOVING_SUFFIX, most_bytes=_SHA256_BYTES)
        if note.decode(errors="replace") not in known:
            return False
        self._remove_beside(backup)
        return True

    def _remove_beside(self, backup: str) -> None:
        # The note goes last: until then, the same command goes on.
        for name in (backup + SIDECAR_SUFFIX, backup + REMOVING_SUFFIX):
            with suppress(FileNotFoundError):
                self.place.remove(name)

    def remove_unfinished(self, backup: str) -> bool:
        """Remove what an interrupted run left under a name that it wrote down before.

        Returns:
            Whether there was something.

        Raises:
            Refused: it is not the name of a backup.
            CommandFailed: something is there still.
        """
        if not is_backup_id(backup):
            raise Refused(f"{backup[:100]!r} is not the name of a backup")
        sizes = self.place.sizes()
        hidden = self.place.give_up(backup + SUFFIX)
        left = [
            name
            for name in (
                backup + SUFFIX + PARTIAL_SUFFIX,
                backup + SIDECAR_SUFFIX + PARTIAL_SUFFIX,
                # Without the file beside it, it is no backup.
                *([backup + SUFFIX] if self._lacks(backup + SIDECAR_SUFFIX) else []),
            )
            if name in sizes
        ]
        for name in left:
            try:
                self.place.remove(name)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise CommandFailed(
                    f"{self.told}/{name}, which an interrupted run left, was not removed: "
                    f"{error.strerror or error}",
                    hint="see whether a backup is still being written: appliance status; then run "
                    "the same command again",
                ) from error
        return hidden or bool(left)

    def _lacks(self, name: str) -> bool:
        """Whether there is no such file; a list that is cut off is no evidence."""
        try:
            self.place.read(name, most_bytes=1)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False
