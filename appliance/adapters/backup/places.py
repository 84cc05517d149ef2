"""Where backups are kept, as a port; a folder of this machine is one.

A file gets its name only when it is whole and synced: before that it is ``NAME.partial``. No file
is ever replaced.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from appliance.adapters.backup.age import Sink
from appliance.adapters.local.plain_files import open_plain, read_plain
from appliance.adapters.local.state_files import PRIVATE_FILE
from appliance.errors import CommandFailed, Refused
from appliance.model.backup.names import PARTIAL_SUFFIX

_MOST_ENTRIES: Final = 100_000
# Left free on the disk of this machine, by what a backup says it needs.
SPARE_BYTES: Final = 64 << 20
# Left free whatever else fills that disk while a backup comes.
LEAST_FREE_BYTES: Final = 32 << 20


class Place(Protocol):
    """A place for backups; names are those of files directly in it."""

    @property
    def told(self) -> str:
        """The place, as messages name it; no secret."""

    def sizes(self) -> dict[str, int]:
        """File -> its size in bytes."""

    def read(self, name: str, *, most_bytes: int) -> bytes:
        """The content of a file.

        Raises:
            OSError: it cannot be read, or is larger.
        """

    def open(self, name: str, start: int = 0) -> AbstractContextManager[IO[bytes]]:
        """A file as a stream, without so many bytes of its beginning.

        Raises:
            OSError: it cannot be read.
        """

    def new(self, name: str) -> AbstractContextManager[Sink]:
        """A new file; it gets its name when the block ends without an error.

        Raises:
            Refused: there is one of that name.
            CommandFailed: it could not be written.
        """

    def give_up(self, name: str) -> bool:
        """Give up what a process that was killed left of a file, where no list shows it.

        Returns:
            Whether there was something.

        Raises:
            OSError: it is there still.
        """

    def remove(self, name: str) -> None:
        """Remove a file, by its exact name; one that is gone is none of ours.

        Raises:
            OSError: it is there still.
        """


def read_to_end(stream: IO[bytes], most_bytes: int) -> bytes:
    """All of a stream that may give less than it is asked for.

    Raises:
        OSError: it cannot be read, or has more bytes.
    """
    content = bytearray()
    while piece := stream.read(most_bytes + 1 - len(content)):
        content += piece
        if len(content) > most_bytes:
            raise OSError(f"larger than {most_bytes} bytes")
    return bytes(content)


class FolderPlace:
    """A folder of this machine, which exists.

    Args:
        folder: the folder.

    Raises:
        Refused: it is none.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise Refused(
                f"{folder} is not a folder",
                hint="create the folder, or mount its file system; or name another: --to DIR",
            )
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._folder

    @property
    def told(self) -> str:
        """The folder."""
        return str(self._folder)

    def sizes(self) -> dict[str, int]:
        """The regular files directly in the folder.

        Raises:
            CommandFailed: it cannot be read.
        """
        found: dict[str, int] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        seen = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(seen.st_mode) and len(found) < _MOST_ENTRIES:
                            found[entry.name] = seen.st_size
        except OSError as error:
            raise CommandFailed(f"{self._folder} cannot be read: {error.strerror}") from error
        return found

    def free_bytes(self) -> int:
        """What the disk of the folder has free, in bytes.

        Raises:
            OSError: it does not say.
        """
        return shutil.disk_usage(self._folder).free

    def read(self, name: str, *, most_bytes: int) -> bytes:
        """The content of a file; a link is none."""
        return read_plain(self._folder / name, most_bytes=most_bytes)

    @contextmanager
    def open(self, name: str, start: int = 0) -> Iterator[IO[bytes]]:
        """A file as a stream; a link is none."""
        with open_plain(self._folder / name) as raw:
            raw.seek(start)
            yield raw

    @contextmanager
    def new(self, name: str) -> Iterator[Sink]:
        """A new file, 0600."""
        path, partial = self._folder / name, self._folder / (name + PARTIAL_SUFFIX)
        try:
            self._require_free(path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(partial, flags, PRIVATE_FILE)
            try:
                with os.fdopen(handle, "wb") as stream:
                    # Not every file system has locks: then nobody sees that it is being written.
                    with suppress(OSError):
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield stream
                    stream.flush()
                    os.fsync(stream.fileno())
                # Only now: not every server renames a file that is open.
                self._give_name(partial, path)
            finally:
                partial.unlink(missing_ok=True)
            self._sync()
        except FileExistsError as error:
            raise Refused(f"{partial} exists already", hint="run the same command again") from error
        except OSError as error:
            raise CommandFailed(
                f"{path} was not written: {error.strerror or error}",
                hint="older backups are untouched; free space or name another place, and run again",
            ) from error

    def give_up(self, name: str) -> bool:
        """Nothing is hidden in a folder."""
        del name
        return False

    def remove(self, name: str) -> None:
        """Remove a regular file; never a folder, what a link names, or what is being written."""
        path = self._folder / name
        if not stat.S_ISREG(path.lstat().st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if name.endswith(PARTIAL_SUFFIX) and _is_being_written(path):
            raise OSError(errno.EBUSY, "another command is writing it", str(path))
        path.unlink()
        self._sync()

    def _require_free(self, path: Path) -> None:
        if os.path.lexists(path):
            raise Refused(f"{path} exists already", hint="run the same command again")

    def _give_name(self, partial: Path, path: Path) -> None:
        try:
            os.link(partial, path)
        except FileExistsError:
            raise Refused(f"{path} exists already", hint="run the same command again") from None
        except OSError:
            # Not every file system has links; the name was free before.
            self._require_free(path)
            partial.rename(path)

    def _sync(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # A network file system may not sync folders.
            with suppress(OSError):
                os.fsync(handle)
        finally:
            os.close(handle)


def _is_being_written(path: Path) -> bool:
    """Whether a process holds a half file; a command that was killed holds none."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
    return False


@dataclass(frozen=True)
class Room:
    """The disk of this machine that a backup goes to.

    Attributes:
        folder: a folder on it.
        otherwise: what to do where it has too little.
    """

    folder: Path
    otherwise: str

    def require(self, size: int) -> None:
        """Require room for so many bytes, before the first one comes.

        Raises:
            Refused: it has too little.
        """
        free = shutil.disk_usage(self.folder).free
        if free < size + SPARE_BYTES:
            raise Refused(
                f"{self.folder} has {free >> 20} MiB free, and the backup needs "
                f"{(size + SPARE_BYTES) >> 20} MiB there: nothing was copied",
                hint=self._hint(),
            )

    def require_spare(self) -> None:
        """Require what is left free for others, while bytes come.

        Raises:
            Refused: something else fills the disk.
        """
        free = shutil.disk_usage(self.folder).free
        if free < LEAST_FREE_BYTES:
            raise Refused(
                f"{self.folder} has {free >> 20} MiB free, expected {LEAST_FREE_BYTES >> 20} MiB "
                "at least: something else fills it while the backup comes; what came is removed",
                hint=self._hint(),
            )

    def _hint(self) -> str:
        return f"see what fills it: df -h {shlex.quote(str(self.folder))}; or {self.otherwise}"
