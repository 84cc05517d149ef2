"""Writes the directory of a site from a backup: all of it or nothing, and never over anything.

The files are written into a folder of ours beside the directory, and come to their place by one
rename. A run that was killed leaves that folder alone; the same command removes it, and begins
again. What must not be here: which files these are (:mod:`appliance.model.backup.site_parts`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from appliance.adapters.site.files import SiteCheck, check_site, require_plain_path
from appliance.errors import NotHealthy, Refused
from appliance.model.backup.names import ANOTHER_BACKUP
from appliance.model.backup.site_parts import KNOWN_HOSTS, MOST_FILE_BYTES

if TYPE_CHECKING:
    from appliance.adapters.backup.opened import BackupFile
    from appliance.model.backup.record import Part

_MARK: Final = "backup"
_FIRST: Final = b"appliance: a site from a backup, unfinished\n"


def is_vacant(directory: Path) -> bool:
    """Whether a site may be written there: nothing is there, or an empty folder.

    Raises:
        Refused: it cannot be read.
    """
    if directory.is_symlink():
        return False
    try:
        return not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
    except OSError as error:
        raise Refused(
            f"{directory} cannot be read: {error.strerror}",
            hint="choose another directory: --site DIR",
        ) from error


def write_site(backup: BackupFile, files: Mapping[str, str], directory: Path) -> SiteCheck:
    """Write the site of a backup; the directory has it whole afterwards, or is as it was.

    Args:
        backup: which was read to its end.
        files: part -> path below the directory.
        directory: it is not there, or empty.

    Returns:
        What the check of its files finds.

    Raises:
        Refused: something is in the way, or the site is another one than the backup says.
        ConfigError: ssh and Ansible cannot use the path.
        NotHealthy: the backup changed meanwhile.
    """
    home = directory.absolute()
    require_plain_path(home)
    if not is_vacant(home):
        raise Refused(
            f"{home} is not empty; no file was changed", hint="choose a new directory: --site DIR"
        )
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with _staged(home) as staged:
            _write(backup, files, staged)
            check = check_site(staged)
            _require_name(check, backup.manifest.about.site, home)
            # Fails where something came into it meanwhile; an empty folder is replaced.
            staged.rename(home)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise Refused(
                f"{home} is not empty any more; no file was changed",
                hint="choose a new directory: --site DIR",
            ) from error
        raise Refused(
            f"{error.filename or home} cannot be written: {error.strerror}",
            hint="choose a directory that you may write to, with enough space; then run the same "
            "command again",
        ) from error
    return check_site(home)


def _require_name(check: SiteCheck, name: str, home: Path) -> None:
    """A site without ``site_name`` has the name of its folder, which the backup has, too."""
    if check.site is not None and check.site.name != name:
        raise Refused(
            f"in {home} the site would be named {check.site.name}, and it is {name}",
            hint=f"give the folder its name: --site {home.parent / name}",
        )


@contextmanager
def _staged(home: Path) -> Iterator[Path]:
    """A folder of ours beside the directory; what an earlier run left there goes first."""
    outer = home.parent / f".{home.name}.from-backup"
    try:
        outer.mkdir(mode=0o700)
    except FileExistsError:
        _require_ours(outer)
    mark = outer / _MARK
    handle = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+b") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"another command is writing {home}", hint="wait for it, then run it again"
            ) from None
        held.write(_FIRST)
        held.flush()
        inner = outer / home.name
        try:
            _remove(outer, inner)
            inner.mkdir(mode=0o700)
            yield inner
        finally:
            _remove(outer, inner)
            mark.unlink(missing_ok=True)
            outer.rmdir()


def _require_ours(outer: Path) -> None:
    """What we would empty has our mark, and is this user's own folder.

    Raises:
        Refused: it is something else.
    """
    if not _is_ours(outer):
        raise Refused(
            f"{outer} is in the way, and it is none of ours; no file was changed",
            hint=f"move it away: mv {outer} {outer}.other",
        )


def _is_ours(outer: Path) -> bool:
    seen = outer.lstat()
    if outer.is_symlink() or not outer.is_dir() or seen.st_uid != os.geteuid():
        return False
    names = {entry.name for entry in outer.iterdir()}
    if not names:
        # Killed before its mark was written.
        return True
    mark = outer / _MARK
    try:
        begun = mark.read_bytes() if mark.is_file() and not mark.is_symlink() else None
    except OSError:
        return False
    mine = begun is not None and (begun == _FIRST or (not begun and names == {_MARK}))
    return mine and names <= {_MARK, outer.name.removesuffix(".from-backup")[1:]}


def _remove(outer: Path, inner: Path) -> None:
    if inner.is_dir() and not inner.is_symlink() and _is_ours(outer):
        shutil.rmtree(inner)


def _write(backup: BackupFile, files: Mapping[str, str], folder: Path) -> None:
    (folder / KNOWN_HOSTS).touch(mode=0o600)

    def take(part: Part, stream: IO[bytes]) -> None:
        name = files.get(part.name)
        if name is None:
            return
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as target:
            left = min(part.size, MOST_FILE_BYTES)
            while left and (piece := stream.read(min(left, 1 << 20))):
                target.write(piece)
                left -= len(piece)
            target.flush()
            os.fsync(target.fileno())

    try:
        backup.read_all(take)
    except FileExistsError as error:
        raise NotHealthy(
            f"two parts of the backup would be the same file {error.filename}",
            hint=ANOTHER_BACKUP,
        ) from error
