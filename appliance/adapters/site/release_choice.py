"""Writes the release into ``site.yml``: that one value, and not a byte beside it.

What must not be here: which release a site may have (the site's own checks, and the upgrade's).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import yaml

from appliance.adapters.local.state_files import replace_file
from appliance.adapters.site.files import SETTINGS
from appliance.errors import Refused

if TYPE_CHECKING:
    from pathlib import Path

KEY: Final = "appliance_release"


def with_release(text: str, release: str) -> str | None:
    """The text of a site.yml with another release; None where it has no such key.

    Comments, quotes of other values, order and line ends stay.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    for key, value in pairs:
        if key.value == KEY and isinstance(value, yaml.ScalarNode):
            start, end = value.start_mark.index, value.end_mark.index
            return text[:start] + release + text[end:]
    return None


def choose_release(site: Path, release: str) -> None:
    """Write the release into a site's ``site.yml``, atomically; its mode and owner stay.

    Where the file is a link, its target is written.

    Raises:
        Refused: the file has no such key, or could not be written; it is as it was.
    """
    with _refusing(site, release) as path:
        after = _changed(path, release)
        if after is not None:
            replace_file(path, after, mode=stat.S_IMODE(path.stat().st_mode))


def require_choosable(site: Path, release: str) -> None:
    """Refuse a ``site.yml`` that :func:`choose_release` could not write; nothing is written.

    Raises:
        Refused: says what to do.
    """
    with _refusing(site, release) as path:
        if _changed(path, release) is not None and not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, "no right to write in its folder")


@contextmanager
def _refusing(site: Path, release: str) -> Iterator[Path]:
    path = site / SETTINGS
    try:
        yield path.resolve()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            f"{path} could not be written: {error}",
            hint=f"make it writable, or write {KEY}: {release} yourself; then run it again",
        ) from error


def _changed(path: Path, release: str) -> str | None:
    """The file's text with the release; None where it has it already.

    Raises:
        Refused: it cannot be changed alone.
    """
    before = path.read_bytes().decode("utf-8")
    try:
        after = with_release(before, release)
    except yaml.YAMLError:
        after = None
    if after is None or not _differs_alone(before, after, release):
        raise Refused(
            f"{path}: found no line '{KEY}: RELEASE' that can be changed alone",
            hint=f"write it yourself: {KEY}: {release}; then run the same command again",
        )
    return after if after != before else None


def _differs_alone(before: str, after: str, release: str) -> bool:
    """Whether nothing else of the file has another meaning now, such as an alias of the value."""
    try:
        return _data(after) == {**_data(before), KEY: release}
    except yaml.YAMLError:
        return False


def _data(text: str) -> dict[str, object]:
    found = yaml.safe_load(text)
    return dict(found) if isinstance(found, dict) else {}
