"""Brings a backup from one place to another, or to this machine for one command.

Every place may be a machine of others: it may break off, hang, send other bytes than before, or
never end. What came is counted against the size and the sha256 of the file beside the backup.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Final, Protocol

from appliance.adapters.backup.places import FolderPlace, Place, Room
from appliance.adapters.backup.reader import read_beside
from appliance.adapters.backup.targets import Access, backup_at, is_remote
from appliance.errors import ApplianceError, NodeUnreachable, NotHealthy
from appliance.model.backup.names import (
    ANOTHER_BACKUP,
    PARTIAL_SUFFIX,
    SIDECAR_SUFFIX,
    SUFFIX,
    is_backup_id,
)
from appliance.model.backup.record import Sidecar, sidecar_text

Tell = Callable[[str], None]
# What a break loses.
PIECE: Final = 1 << 18
# Before each of so many attempts in a row that brought nothing.
PAUSES: Final = (1.0, 5.0, 15.0, 30.0)
MOST_BREAKS: Final = 50
# What has to come in the time that a place may be silent for: slower is as good as silent.
LEAST_BYTES: Final = 1 << 20
SILENT_SECONDS: Final = 60.0
TELL_SECONDS: Final = 20.0
PREFIX: Final = "appliance-backup-"


class Source(Protocol):
    """Where a file is read from; a place for backups is one."""

    @property
    def told(self) -> str:
        """It, as messages name it."""

    def open(self, name: str, start: int = 0) -> AbstractContextManager[IO[bytes]]:
        """A file as a stream, without so many bytes of its beginning.

        Raises:
            OSError: it cannot be read.
        """


@contextmanager
def at_hand(text: str, access: Callable[[], Access], tell: Tell) -> Iterator[Path]:
    """A backup as a file of this machine: its own, or a copy for as long as the block runs.

    The copy is in a folder of its own, 0700, below ``TMPDIR``. Folders that killed commands left
    go before.

    Args:
        text: a path, or the address of a file on an SSH server or in a bucket.
        access: what the site has to reach such places.
        tell: told how far it is.

    Yields:
        The file; what lies beside it is there, too.

    Raises:
        Refused: it is not the name of a backup, or there is no room for it.
        NotHealthy: it is not whole there, or was not whole when it came.
        NodeUnreachable: the server does not answer, or it is another one.
    """
    if not is_remote(text):
        yield Path(text)
        return
    store, backup = backup_at(text, access())
    above = Path(tempfile.gettempdir())
    _remove_left(above)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sidecar = offered(store.place, backup)
        room = Room(above, "name another folder: TMPDIR=/DIR appliance ...")
        room.require(sidecar.size)
        bring(store.place, sidecar, FolderPlace(folder), tell, room)
        yield folder / (backup + SUFFIX)
    finally:
        _remove(folder)
        os.close(lock)


def offered(source: Place, backup: str) -> Sidecar:
    """What a place says of a backup, as far as that agrees with itself.

    Raises:
        NotHealthy: it is not there, or not whole.
    """
    sidecar, name = read_beside(source, backup), backup + SUFFIX
    size = source.sizes().get(name)
    if size is None:
        raise NotHealthy(f"{source.told}/{name} is not there", hint=ANOTHER_BACKUP)
    if size != sidecar.size:
        raise NotHealthy(
            f"{source.told}/{name} has {size} bytes, and had {sidecar.size} when it was written",
            hint=ANOTHER_BACKUP,
        )
    return sidecar


def bring(
    source: Source, sidecar: Sidecar, target: Place, tell: Tell, room: Room | None = None
) -> None:
    """Copy a backup; it gets its name in the target once it is whole, and the file beside it then.

    Args:
        source: where it is.
        sidecar: what the source says of it.
        target: where it goes.
        tell: told how far it is.
        room: the disk that it goes to; None: that of another machine.

    Raises:
        Refused: the target has a file of that name, or something else fills its disk.
        NotHealthy: what came is not what was written.
        NodeUnreachable, CommandFailed: the source does not answer, or the target took nothing.
    """
    bring_file(source, sidecar, target, tell, room)
    bring_beside(sidecar, target)


def bring_beside(sidecar: Sidecar, target: Place) -> None:
    """Write the file beside a backup, which makes it one.

    Raises:
        Refused, CommandFailed: it was not written.
    """
    with target.new(sidecar.about.id + SIDECAR_SUFFIX) as sink:
        sink.write(sidecar_text(sidecar).encode())


def bring_file(
    source: Source, sidecar: Sidecar, target: Place, tell: Tell, room: Room | None = None
) -> None:
    """Copy a backup without what lies beside it: no command takes it for one yet.

    Raises:
        as :func:`bring`.
    """
    name, digest = sidecar.about.id + SUFFIX, hashlib.sha256()
    tell(f"{name}: {sidecar.size} bytes from {source.told}")
    with target.new(name) as sink:
        for piece in pieces(source, name, sidecar.size, tell):
            digest.update(piece)
            sink.write(piece)
            if room is not None:
                room.require_spare()
        if digest.hexdigest() != sidecar.sha256:
            raise NotHealthy(
                f"{source.told}/{name}: the copy's sha256 is not the recorded one: the "
                "backup is damaged there, or changed while it was read",
                hint=f"run the same command again; if it fails again, {ANOTHER_BACKUP}",
            )


class _TooSlow(TimeoutError):
    """Bytes come, and too few of them."""


def pieces(
    source: Source,
    name: str,
    size: int,
    tell: Tell,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[bytes]:
    """So many bytes of a file; where the connection breaks or drips, from there on again.

    Args:
        source: where it is.
        name: of the file.
        size: in bytes.
        tell: told how far it is.
        clock: seconds that never go back.

    Raises:
        NotHealthy: it has fewer or more bytes, or cannot be read.
        NodeUnreachable: the place does not answer any more.
    """
    at, breaks, told = 0, _Breaks(source, name, size), _Told(tell, name, size)
    while True:
        before = at
        try:
            for piece in _from(source, name, size, at, clock):
                at += len(piece)
                yield piece
                told.so_far(at)
        except (OSError, ApplianceError) as error:
            pause = breaks.pause(error, before, at)
            tell(f"{name}: {_words(error)}; again from byte {at} on")
            time.sleep(pause)
        else:
            break
    if at < size:
        raise _other(source, name, size, "fewer")


def _from(
    source: Source, name: str, size: int, at: int, clock: Callable[[], float]
) -> Iterator[bytes]:
    pace, start = _Pace(), at
    with source.open(name, at) as stream:
        while True:
            began = clock()
            piece = stream.read(min(PIECE, size - at + 1))
            # Until it begins to give, a busy place has the time that any answer has.
            if at > start:
                pace.moved(len(piece), clock() - began)
            if not piece:
                return
            at += len(piece)
            if at > size:
                raise _other(source, name, size, "more")
            yield piece
            if at < size:
                pace.require()


class _Pace:
    """How fast one connection gives a file; what this machine does with it does not count."""

    def __init__(self) -> None:
        self._bytes, self._seconds = 0, 0.0

    def moved(self, size: int, seconds: float) -> None:
        """So many bytes came, and were waited for so long."""
        self._bytes, self._seconds = self._bytes + size, self._seconds + seconds

    def require(self) -> None:
        """Require that enough came, each time that there was time for it.

        Raises:
            _TooSlow: less came.
        """
        if self._seconds < SILENT_SECONDS:
            return
        if self._bytes < LEAST_BYTES * self._seconds / SILENT_SECONDS:
            raise _TooSlow(
                f"{self._bytes} bytes came in {self._seconds:.0f} s, expected "
                f"{LEAST_BYTES >> 20} MiB in {SILENT_SECONDS:.0f} s at least"
            )
        self._bytes, self._seconds = 0, 0.0


class _Breaks:
    """How often the reading of a file broke off."""

    def __init__(self, source: Source, name: str, size: int) -> None:
        self._source, self._name, self._size = source, name, size
        self._all = self._idle = 0

    def pause(self, error: Exception, before: int, at: int) -> float:
        """How many seconds to wait before another attempt.

        Raises:
            NotHealthy: another one would not help.
            NodeUnreachable: there were enough.
        """
        if not _is_break(error):
            raise _unreadable(self._source, self._name, error) from error
        # What a slow one brings must not let it go on for ever.
        least = LEAST_BYTES if isinstance(error, _TooSlow) else 1
        self._all, self._idle = self._all + 1, 0 if at - before >= least else self._idle + 1
        if self._idle > len(PAUSES) or self._all > MOST_BREAKS:
            raise _broken(self._source, self._name, at, self._size, error) from error
        return PAUSES[max(self._idle, 1) - 1]


class _Told:
    """Says now and then how far a file is."""

    def __init__(self, tell: Tell, name: str, size: int) -> None:
        self._tell, self._name, self._size = tell, name, size
        self._last = time.monotonic()

    def so_far(self, at: int) -> None:
        """So many bytes came."""
        if time.monotonic() - self._last > TELL_SECONDS:
            self._last = time.monotonic()
            self._tell(f"{self._name}: {at} of {self._size} bytes")


def _is_break(error: Exception) -> bool:
    """Whether the same may work in a moment: not where something answers, and refuses."""
    if isinstance(error, NodeUnreachable):
        return not (error.answers or error.deceives)
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError | PermissionError)


def _unreadable(source: Source, name: str, error: Exception) -> Exception:
    """An error of the place as one that is not taken for one of the target."""
    if isinstance(error, ApplianceError):
        return error
    return NotHealthy(f"{source.told}/{name} cannot be read: {_words(error)}", hint=ANOTHER_BACKUP)


def _words(error: Exception) -> str:
    if isinstance(error, ApplianceError):
        return error.message
    text = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return "".join(one for one in text if one.isprintable())[:200] or "the connection broke off"


def _other(source: Source, name: str, size: int, which: str) -> NotHealthy:
    return NotHealthy(
        f"{source.told}/{name}: {which} bytes came than the {size} that were written",
        hint=ANOTHER_BACKUP,
    )


def _broken(source: Source, name: str, at: int, size: int, error: Exception) -> NodeUnreachable:
    is_slow = isinstance(error, _TooSlow)
    what = "it is too slow" if is_slow else "it broke off again and again"
    beside = name.removesuffix(SUFFIX) + SIDECAR_SUFFIX
    otherwise = f"; or copy it and {beside} to this machine by hand, and name that copy"
    return NodeUnreachable(
        f"{source.told}/{name}: {what}, {at} of {size} bytes came: {_words(error)}",
        hint="see the line to the server and its log; then run the same command again"
        + (otherwise if is_slow else ""),
    )


def _remove_left(above: Path) -> None:
    """Remove the folders of commands that were killed: ours, and no process holds them."""
    for left in above.glob(PREFIX + "*"):
        with suppress(OSError):
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                # One that is empty may be another command's, which has not locked it yet.
                if os.fstat(handle).st_uid == os.geteuid() and any(left.iterdir()):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(left)
            finally:
                os.close(handle)


def _remove(folder: Path) -> None:
    """Remove a folder of ours with the files of a backup; anything else stays, and so does it."""
    with suppress(OSError):
        for one in folder.iterdir():
            name = one.name.removesuffix(PARTIAL_SUFFIX)
            stem = name.removesuffix(SIDECAR_SUFFIX).removesuffix(SUFFIX)
            if is_backup_id(stem) and stat.S_ISREG(one.lstat().st_mode):
                one.unlink()
        folder.rmdir()
