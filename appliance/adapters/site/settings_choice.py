"""Writes one value into ``site.yml``, and not a byte beside it: the release, or the vendor bundle.

What must not be here: which value a site may have (the site's own checks, and the upgrade's).
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from appliance.adapters.local.state_files import replace_file
from appliance.adapters.site.files import SETTINGS
from appliance.errors import Refused

RELEASE: Final = ("appliance_release",)
VENDOR_BUNDLE: Final = ("runai", "vendor_bundle")
# What needs no quotes in YAML, wherever it stands.
_PLAIN: Final = re.compile(r"[A-Za-z0-9/][A-Za-z0-9/._+-]*", re.ASCII)


def with_value(text: str, keys: tuple[str, ...], value: str) -> str | None:
    """The text of a site.yml with another value; None where it has no such key.

    Comments, quotes of other values, order and line ends stay.

    Args:
        text: of the file.
        keys: from the top of the document to the value.
        value: the new one.
    """
    node = _scalar(text, keys)
    if node is None:
        return None
    written = value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    return text[: node.start_mark.index] + written + text[node.end_mark.index :]


def _scalar(text: str, keys: tuple[str, ...]) -> yaml.ScalarNode | None:
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    for name in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((found for key, found in pairs if key.value == name), None)
    return node if isinstance(node, yaml.ScalarNode) else None


def chosen_release(site: Path) -> str:
    """The release that a site's ``site.yml`` has now, whatever a command asks for; empty: none.

    Raises:
        Refused: the file cannot be read any more.
    """
    path = site / SETTINGS
    try:
        node = _scalar(path.read_bytes().decode("utf-8"), RELEASE)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Refused(
            f"{path} cannot be read: {error}", hint="make it readable; then run it again"
        ) from error
    return str(node.value) if node else ""


def choose_release(site: Path, release: str) -> None:
    """Write the release into a site's ``site.yml``, atomically; its mode and owner stay.

    Where the file is a link, its target is written.

    Raises:
        Refused: the file has no such key, or could not be written; it is as it was.
    """
    _choose(site, RELEASE, release)


def choose_vendor_bundle(site: Path, file: str) -> None:
    """Write the path of Run:ai's bundle into ``site.yml``, as :func:`choose_release` does.

    A file in the site's directory is named from there: the site may lie elsewhere on another
    machine, which reads the same ``site.yml``.

    Raises:
        Refused: the file has no such key, or could not be written; it is as it was.
    """
    _choose(site, VENDOR_BUNDLE, _from_site(site, Path(file)))


def _from_site(site: Path, file: Path) -> str:
    # A bundle may be a link to a larger disk: its name counts, and where that is.
    where, folder = Path(os.path.realpath(file.parent), file.name), os.path.realpath(site)
    near = str(where.relative_to(folder)) if where.is_relative_to(folder) else "~"
    return str(file) if near.startswith("~") else near


def require_choosable(site: Path, release: str) -> None:
    """Refuse a ``site.yml`` that :func:`choose_release` could not write; nothing is written.

    Raises:
        Refused: says what to do.
    """
    with _refusing(site, RELEASE, release) as path:
        changed = _changed(path, RELEASE, release)
        if changed is not None and not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, "no right to write in its folder")


def _choose(site: Path, keys: tuple[str, ...], value: str) -> None:
    with _refusing(site, keys, value) as path:
        after = _changed(path, keys, value)
        if after is not None:
            replace_file(path, after, mode=stat.S_IMODE(path.stat().st_mode))


@contextmanager
def _refusing(site: Path, keys: tuple[str, ...], value: str) -> Iterator[Path]:
    path = site / SETTINGS
    try:
        yield path.resolve()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            f"{path} could not be written: {error}",
            hint=f"make it writable, or write {_name(keys)}: {value} yourself; then run it again",
        ) from error


def _changed(path: Path, keys: tuple[str, ...], value: str) -> str | None:
    """The file's text with the value; None where it has it already.

    Raises:
        Refused: it cannot be changed alone.
    """
    before = path.read_bytes().decode("utf-8")
    try:
        after = with_value(before, keys, value)
    except yaml.YAMLError:
        after = None
    if after is None or not _differs_alone(before, after, keys, value):
        raise Refused(
            f"{path}: found no value of {_name(keys)} that can be changed alone",
            hint=f"write it yourself: {_name(keys)}: {value}; then run the same command again",
        )
    return after if after != before else None


def _differs_alone(before: str, after: str, keys: tuple[str, ...], value: str) -> bool:
    """Whether nothing else of the file has another meaning now, such as an alias of the value."""
    try:
        return _data(after) == _with(_data(before), keys, value)
    except (yaml.YAMLError, KeyError, TypeError):
        return False


def _with(data: dict[str, Any], keys: tuple[str, ...], value: str) -> dict[str, Any]:
    """A copy with the value; what an alias shares keeps its own."""
    first, *rest = keys
    return {**data, first: _with(data[first], tuple(rest), value) if rest else value}


def _data(text: str) -> dict[str, Any]:
    found = yaml.safe_load(text)
    return dict(found) if isinstance(found, dict) else {}


def _name(keys: tuple[str, ...]) -> str:
    return ".".join(keys)
