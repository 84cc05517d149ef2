"""The files that a wheel installs, as entries of an image: pip need not run there.

Follows the binary distribution format of wheels: files of the root and of ``.data`` folders, and
programs of ``entry_points.txt``. What must not be here: which wheels there are.
"""

from __future__ import annotations

import configparser
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from appliance.builder.sources.oci.layout import Entry
from appliance.errors import BuildFailed

_MOST_FILES = 50_000
_MOST_BYTES = 1 << 30
_DATA = re.compile(r"[^/]+\.data")
_CALL = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<function>[\w.]+)(\s*\[.*\])?")
_NAME = re.compile(r"[\w.-]+")
_SCRIPT = """#!/usr/bin/python3
import sys

from {module} import {first}

if __name__ == "__main__":
    sys.exit({function}())
"""


def wheel_entries(wheel: Path, python: str, work: Path) -> list[Entry]:
    """The entries of one wheel; the content is below ``work``.

    Raises:
        BuildFailed: it is no wheel, or has a file outside of its folders.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            return list(_entries(archive, f"/usr/local/lib/python{python}/dist-packages", work))
    except (zipfile.BadZipFile, configparser.Error, ValueError) as error:
        raise BuildFailed(
            f"{work.name} cannot be unpacked as a wheel: {error}",
            hint="run the same command again: pip downloads it again",
        ) from error


def _entries(archive: zipfile.ZipFile, packages: str, work: Path) -> Iterator[Entry]:
    members = [item for item in archive.infolist() if not item.is_dir()]
    if len(members) > _MOST_FILES or sum(item.file_size for item in members) > _MOST_BYTES:
        raise ValueError("it is too large")
    work.mkdir(parents=True)
    for number, member in enumerate(members):
        path = _place(member.filename, packages)
        if path is None:
            continue
        content = work / str(number)
        with archive.open(member) as stream, content.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
        if path.startswith("/usr/local/bin/"):
            _set_interpreter(content)
            yield Entry(path, "file", 0o755, source=content)
        else:
            yield Entry(path, "file", 0o644, source=content)
        if re.fullmatch(r"[^/]+\.dist-info/entry_points\.txt", member.filename):
            yield from _programs(content.read_text(encoding="utf-8"))


def _place(name: str, packages: str) -> str | None:
    """Where a member belongs in the image; None for what is not needed there."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or not parts:
        raise ValueError(f"it has the path {name!r}")
    if not _DATA.fullmatch(parts[0]):
        return f"{packages}/{name}"
    if len(parts) < 3:
        raise ValueError(f"it has the path {name!r}")
    places = {"purelib": packages, "platlib": packages, "scripts": "/usr/local/bin",
              "data": "/usr/local"}  # fmt: skip
    return f"{places[parts[1]]}/{'/'.join(parts[2:])}" if parts[1] in places else None


def _set_interpreter(script: Path) -> None:
    first, newline, rest = script.read_bytes().partition(b"\n")
    if first.startswith(b"#!python"):
        script.write_bytes(b"#!/usr/bin/python3" + newline + rest)


class _EntryPoints(configparser.ConfigParser):
    """``entry_points.txt``: names keep their case."""

    def __init__(self) -> None:
        super().__init__(delimiters=("=",), interpolation=None)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def _programs(text: str) -> Iterator[Entry]:
    points = _EntryPoints()
    points.read_string(text)
    for name, target in points.items("console_scripts") if "console_scripts" in points else ():
        call = _CALL.fullmatch(target.strip())
        if call is None or not _NAME.fullmatch(name):
            raise ValueError(f"it has the program {name!r} = {target!r}")
        script = _SCRIPT.format(
            module=call["module"],
            first=call["function"].partition(".")[0],
            function=call["function"],
        )
        yield Entry(f"/usr/local/bin/{name}", "file", 0o755, content=script.encode())
