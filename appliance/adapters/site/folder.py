"""Writes a site's directory: only new files, all or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import (
    COMMITTABLE,
    PRIVATE_FILE,
    STATE,
    make_folder,
    replace_file,
)
from appliance.adapters.site.files import SETTINGS, check_site, require_plain_path
from appliance.errors import Refused
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.site.files.draft import KnownContent
from appliance.model.site.files.schema import site_schema_text
from appliance.model.site.files.text import SCHEMA, SCHEMA_LINE

# Lists the files of a site while they are moved to their paths.
UNFINISHED = "init-unfinished"


class SiteDirectory:
    """The directory of a new site.

    Args:
        directory: its path.
        known: releases, hardware and roles to check against; None for those installed.
    """

    def __init__(self, directory: Path, known: KnownContent | None = None) -> None:
        self._directory = directory
        self._known = known

    def existing(self, files: Sequence[str]) -> tuple[str, ...]:
        """The existing ones of ``files``, except those that may be replaced.

        Files of the state may be replaced, and files of an earlier attempt that was killed.
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
        """Check the files in a temporary directory.

        Raises:
            ConfigError: ssh, rsync or Ansible could not use the site's path.
        """
        require_plain_path(self._directory.resolve())
        with tempfile.TemporaryDirectory(prefix="appliance-") as private:
            trial = Path(private) / (self._directory.resolve().name or "site")
            _write(trial, files)
            check = check_site(trial, known=self._known)
            return tuple(str(fault).removeprefix(f"{trial}/") for fault in check.faults)

    def write(self, files: Mapping[str, str]) -> tuple[Path, ...]:
        """Write the files, all or none: first to a temporary folder, then to their paths.

        Raises:
            Refused: the directory cannot be written, or a file has appeared meanwhile.
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
                hint="choose a directory that you may write to, with enough space; then run the "
                "same command again",
            ) from error
        return moved

    def _move(
        self, staged: Path, files: Mapping[str, str], mine: frozenset[str]
    ) -> tuple[Path, ...]:
        """Move each file to its path; if one move fails, undo all."""
        moved: list[Path] = []
        try:
            for name in files:
                path = self._directory / name
                make_folder(path.parent)
                if name not in mine and not name.startswith(f"{STATE}/"):
                    # Fails if the file has appeared meanwhile; the move replaces our empty file.
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
        """The files of an earlier ``write`` that was killed while it moved them."""
        try:
            names = read_plain(self._state / UNFINISHED, most_bytes=1 << 20)
        except OSError:
            return frozenset()
        return frozenset(names.decode("utf-8", "replace").splitlines())


def is_schema_current(directory: Path) -> bool:
    """Whether the schema that site.yml names for editors exists and is of this version."""
    settings = (directory / SETTINGS).read_text(encoding="utf-8")
    if SCHEMA_LINE not in settings.splitlines():
        return True
    try:
        schema = read_json(read_plain(directory / SCHEMA, most_bytes=1 << 20))
    except (OSError, Unreadable):
        return False
    return bool(schema == read_json(site_schema_text()))


def _write(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        private = name.startswith(f"{STATE}/")
        replace_file(directory / name, text, mode=PRIVATE_FILE if private else COMMITTABLE)
