"""Writes a site's directory: new files only, all or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.adapters.plain_files import read_plain
from appliance.adapters.site_files import SETTINGS, check_site, require_plain_path
from appliance.adapters.state_files import (
    COMMITTABLE,
    PRIVATE_FILE,
    STATE,
    make_folder,
    replace_file,
)
from appliance.errors import Refused
from appliance.model.site_draft import KnownContent
from appliance.model.site_schema import site_schema_text
from appliance.model.site_text import SCHEMA, SCHEMA_LINE
from appliance.model.strict_json import Unreadable, read_json

# Names the files of a site while they get their places.
UNFINISHED = "init-unfinished"


class SiteDirectory:
    """The directory of a site to be.

    Args:
        directory: where it will be.
        known: what its choices are checked against; what is installed when None.
    """

    def __init__(self, directory: Path, known: KnownContent | None = None) -> None:
        self._directory = directory
        self._known = known

    def existing(self, files: Sequence[str]) -> tuple[str, ...]:
        """Those of ``files`` that are there already; what is in the state may be replaced.

        So may what an earlier attempt left that was killed before it had written them all.
        """
        mine = self._unfinished()
        return tuple(
            name
            for name in files
            if not name.startswith(f"{STATE}/")
            and name not in mine
            and os.path.lexists(self._directory / name)
        )

    def faults(self, files: Mapping[str, str]) -> tuple[str, ...]:
        """Check the files in a directory of their own.

        Raises:
            ConfigError: what comes after could not take the path that they are for.
        """
        require_plain_path(self._directory.resolve())
        with tempfile.TemporaryDirectory(prefix="appliance-") as private:
            trial = Path(private) / (self._directory.resolve().name or "site")
            _write(trial, files)
            check = check_site(trial, known=self._known)
            return tuple(str(fault).removeprefix(f"{trial}/") for fault in check.faults)

    def write(self, files: Mapping[str, str]) -> tuple[Path, ...]:
        """Write the files, all or none: beside their places first, then each to its own.

        Raises:
            Refused: the directory cannot be written, or a file appeared meanwhile.
        """
        mine = self._unfinished()
        try:
            make_folder(self._state)
            with tempfile.TemporaryDirectory(prefix="init-", dir=self._state) as staged:
                _write(Path(staged), files)
                replace_file(self._state / UNFINISHED, "".join(f"{name}\n" for name in files))
                moved = self._move(Path(staged), files, mine)
            (self._state / UNFINISHED).unlink()
        except OSError as error:
            raise Refused(
                f"{error.filename or self._directory} cannot be written: {error.strerror}",
                hint="choose a directory that you may write, with room; then the same command",
            ) from error
        return moved

    def _move(
        self, staged: Path, files: Mapping[str, str], mine: frozenset[str]
    ) -> tuple[Path, ...]:
        """Give each file its place; where one cannot have it, none has."""
        moved: list[Path] = []
        try:
            for name in files:
                path = self._directory / name
                make_folder(path.parent)
                if name not in mine and not name.startswith(f"{STATE}/"):
                    # Fails where one appeared meanwhile; the next line then replaces our own.
                    path.touch(exist_ok=False)
                moved.append(path)
                (staged / name).replace(path)
        except BaseException:
            for path in moved:
                path.unlink(missing_ok=True)
            (self._state / UNFINISHED).unlink(missing_ok=True)
            raise
        return tuple(moved)

    @property
    def _state(self) -> Path:
        return self._directory / STATE

    def _unfinished(self) -> frozenset[str]:
        """The files of an earlier ``write`` that was killed while it gave them their places."""
        try:
            found = read_plain(self._state / UNFINISHED, most_bytes=1 << 20)
        except OSError:
            return frozenset()
        return frozenset(found.decode("utf-8", "replace").splitlines())


def is_schema_current(directory: Path) -> bool:
    """Whether the schema that site.yml names for editors is there and this version's."""
    settings = (directory / SETTINGS).read_text(encoding="utf-8")
    if SCHEMA_LINE not in settings.splitlines():
        return True
    try:
        found = read_json(read_plain(directory / SCHEMA, most_bytes=1 << 20))
    except (OSError, Unreadable):
        return False
    return bool(found == read_json(site_schema_text()))


def _write(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        private = name.startswith(f"{STATE}/")
        replace_file(directory / name, text, mode=PRIVATE_FILE if private else COMMITTABLE)
