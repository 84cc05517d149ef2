"""Writes a site's directory: only new files, all or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import (
    COMMITTABLE,
    PRIVATE_FILE,
    STATE,
    make_folder,
    replace_file,
)
from appliance.adapters.site.content import known_content
from appliance.adapters.site.files import HOSTS, SETTINGS, check_site, require_plain_path
from appliance.errors import Refused
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.site.files.diagnostics import SiteFault
from appliance.model.site.files.draft import KnownContent
from appliance.model.site.files.schema import (
    HOSTS_SCHEMA,
    NODE_SCHEMA,
    SITE_SCHEMA,
    schema_texts,
    schemas,
)
from appliance.model.site.files.text import HOSTS_SCHEMA_LINE, NODE_SCHEMA_LINE, SCHEMA_LINE

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

    def schemas(self) -> Mapping[str, str]:
        """The schemas for editors that the site's files name."""
        return schema_texts(self._known or known_content())

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

    def faults(self, files: Mapping[str, str]) -> tuple[SiteFault, ...]:
        """Check the files in a temporary directory; the faults' files are relative to it.

        Raises:
            ConfigError: ssh, rsync or Ansible could not use the site's path.
        """
        require_plain_path(self._directory.resolve())
        with tempfile.TemporaryDirectory(prefix="appliance-") as private:
            trial = Path(private) / (self._directory.resolve().name or "site")
            _write(trial, files)
            check = check_site(trial, known=self._known)
            return tuple(
                replace(fault, file=fault.file.removeprefix(f"{trial}/")) for fault in check.faults
            )

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


def old_schemas(directory: Path) -> tuple[tuple[str, str], ...]:
    """Each schema that a file of the site names and that is missing or of another version.

    Returns:
        The schema's file in the site, and the command that prints its content.
    """
    named = [
        (SITE_SCHEMA, SCHEMA_LINE, [directory / SETTINGS], "appliance site schema"),
        (HOSTS_SCHEMA, HOSTS_SCHEMA_LINE, [directory / HOSTS], "appliance site schema --hosts"),
        (
            NODE_SCHEMA,
            NODE_SCHEMA_LINE,
            sorted((directory / "host_vars").glob("*.yml")),
            "appliance site schema --node",
        ),
    ]
    current = schemas(known_content())
    return tuple(
        (name, command)
        for name, line, files, command in named
        if any(line in file.read_text(encoding="utf-8").splitlines() for file in files)
        and not _holds(directory / name, current[name])
    )


def _holds(path: Path, schema: Mapping[str, Any]) -> bool:
    try:
        return bool(read_json(read_plain(path, most_bytes=1 << 20)) == schema)
    except (OSError, Unreadable):
        return False


def _write(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        private = name.startswith(f"{STATE}/")
        replace_file(directory / name, text, mode=PRIVATE_FILE if private else COMMITTABLE)
