"""Writes a site's directory: new files only, all or none."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.adapters.site_files import SETTINGS, check_site, require_plain_path
from appliance.errors import Refused
from appliance.model.site_draft import KnownContent
from appliance.model.site_schema import site_schema_text
from appliance.model.site_text import SCHEMA, SCHEMA_LINE

STATE = ".appliance"


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
        """Those of ``files`` that are there already; what is in the state may be replaced."""
        return tuple(
            name
            for name in files
            if not name.startswith(f"{STATE}/") and (self._directory / name).exists()
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
        """Write the files.

        Raises:
            Refused: the directory cannot be written, or a file appeared meanwhile.
        """
        try:
            (self._directory / STATE).mkdir(mode=0o700, parents=True, exist_ok=True)
            return _write(self._directory, files)
        except OSError as error:
            raise Refused(
                f"{error.filename or self._directory} cannot be written: {error.strerror}",
                hint="choose a directory that you may write",
            ) from error


def renew_schema(directory: Path) -> Path | None:
    """Write the schema that site.yml names when it is absent or old; its path if it was written."""
    path = directory / SCHEMA
    settings = (directory / SETTINGS).read_text(encoding="utf-8")
    text = site_schema_text()
    if SCHEMA_LINE not in settings.splitlines():
        return None
    # It only helps editors: a site that may not be written is as good without it.
    with contextlib.suppress(OSError):
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            return path
    return None


def _write(directory: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    written = []
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if name.startswith(f"{STATE}/") else "x", encoding="utf-8") as stream:
            stream.write(text)
        written.append(path)
    return tuple(written)
