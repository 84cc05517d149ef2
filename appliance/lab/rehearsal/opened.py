"""Where the secrets of a site lie outside a lab's containers, once its backup was opened there.

A restored lab has the CAs of the real site: whoever has the lab's kubeconfig rules the site. Plain
text of a backup is on no disk of this machine but in the containers, so this is all. The note of it
is outside the lab's folder: ``lab down`` knows the lab's name alone.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import replace_file
from appliance.errors import LabError
from appliance.lab.site.site import STATE
from appliance.lab.site.sites import likeness_file

# Containers outlive a boot of this machine, and so has this.
NOTES: Final = Path("/var/lib/appliance-lab/opened")
MOST_BYTES: Final = 4096
# Below the state of the lab's site: what has a key that the restored CAs signed, and logs.
SECRETS: Final = ("kubeconfig", "runs")


class OpenedLabs:
    """The labs of this machine in which a backup was opened.

    Args:
        notes: the folder with one file for each.
    """

    def __init__(self, notes: Path = NOTES) -> None:
        self._notes = notes

    def note(self, lab: str, directory: Path) -> None:
        """Write down where the site of a lab is, before its first secret is there.

        Raises:
            LabError: it could not be written.
        """
        try:
            replace_file(self._notes / lab, f"{directory.resolve()}\n")
        except OSError as error:
            raise LabError(
                f"{self._notes / lab} could not be written: {error.strerror}",
                hint="make room or mount it writable, then run the same command again",
            ) from error

    def destroy(self, lab: str) -> tuple[str, ...]:
        """Remove what was opened from the lab's site; a sentence for each thing.

        Raises:
            LabError: something could not be removed; the same command goes on.
        """
        note = self._notes / lab
        try:
            text = read_plain(note, most_bytes=MOST_BYTES)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            raise LabError(f"{note} cannot be read: {error}", hint="read and remove it") from error
        directory = Path(text.decode(errors="replace").strip())
        told = []
        try:
            for path in _secrets(directory):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
                told.append(f"destroyed: {path}")
            with suppress(FileNotFoundError):
                note.unlink()
        except OSError as error:
            raise LabError(
                f"{error.filename} could not be removed: {error.strerror}",
                hint="it has secrets of a site: remove it by hand, then run the same command again",
            ) from error
        return tuple(told) or (f"nothing of the backup is left in {directory}",)


def _secrets(directory: Path) -> list[Path]:
    """What is there of them; nothing in a folder that is no such lab's, or behind a link."""
    state = directory / STATE
    if not directory.is_absolute() or state.is_symlink() or not likeness_file(directory).is_file():
        return []
    found = [path for name in SECRETS for path in state.glob(f"{name}*")]
    return sorted(path for path in found if path.is_symlink() or path.exists())
