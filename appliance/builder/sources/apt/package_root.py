"""A root file system from the content of packages: no root rights, no maintainer scripts.

Each package's data archive is unpacked without its documentation (licences stay); paths below
``/bin``, ``/sbin`` and ``/lib`` move below ``/usr`` as on every merged system. For the effects of
maintainer scripts, mainly alternatives, a release lists links.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from appliance.adapters.local import processes
from appliance.builder.sources.oci.layout import Entry
from appliance.errors import BuildFailed

_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info",
             "usr/share/lintian", "usr/share/bash-completion", "usr/share/bug")  # fmt: skip


def root_entries(packages: Mapping[str, Path], work: Path) -> list[Entry]:
    """The files of packages (by file name) as entries; the content is below ``work``.

    Raises:
        BuildFailed: two packages contain different files with the same path.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    entries: dict[str, Entry] = {}
    for number, (name, package) in enumerate(sorted(packages.items())):
        content = work / f"{number}.tar"
        _data_of(package, content)
        for entry in _read(content, work / str(number)):
            _merge(entries, entry, name)
        content.unlink()
    for name in _MERGED:
        if any(path.startswith(f"/usr/{name}/") for path in entries):
            entries[f"/{name}"] = Entry(f"/{name}", "symlink", 0o777, target=f"usr/{name}")
    for name, mode in (("tmp", 0o1777), ("run", 0o755), ("proc", 0o555), ("sys", 0o555)):
        entries.setdefault(f"/{name}", Entry(f"/{name}", "directory", mode))
    return list(entries.values())


def file_of(package: Path, member: str, destination: Path) -> None:
    """Extract one file from a package.

    Raises:
        BuildFailed: the package has no such file.
    """
    path = member.strip("/")
    content = destination.with_suffix(".tar")
    _data_of(package, content)
    try:
        with tarfile.open(content) as archive:
            for item in archive:
                if merged(item.name) == merged(path) and item.isfile():
                    _copy(archive, item, destination)
                    return
    finally:
        content.unlink()
    raise BuildFailed(f"package {package.name} has no file /{path}")


def _data_of(package: Path, destination: Path) -> None:
    processes.run(
        ["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" > "$2"', "sh", package, destination],
        hint="dpkg is needed to build a bundle: build on a Debian-family host",
    )


def _read(content: Path, folder: Path) -> Iterator[Entry]:
    folder.mkdir()
    with tarfile.open(content) as archive:
        for number, item in enumerate(archive):
            path = "/" + merged(item.name)
            if path == "/" or _is_left_out(path):
                continue
            if item.isdir():
                yield Entry(path, "directory", item.mode)
            elif item.issym():
                yield Entry(path, "symlink", 0o777, target=_retarget(item))
            elif item.islnk():
                yield Entry(path, "hardlink", item.mode, target="/" + merged(item.linkname))
            elif item.isfile():
                _copy(archive, item, folder / str(number))
                yield Entry(path, "file", item.mode, source=folder / str(number))


def _merge(entries: dict[str, Entry], entry: Entry, package: str) -> None:
    existing = entries.get(entry.path)
    if existing is None or (existing.kind == entry.kind == "directory"):
        entries[entry.path] = entry
    elif existing.kind != "directory" or entry.kind != "symlink":
        raise BuildFailed(f"{package} and another package both contain {entry.path}")


def _copy(archive: tarfile.TarFile, item: tarfile.TarInfo, destination: Path) -> None:
    stream = archive.extractfile(item)
    if stream is not None:
        with stream, destination.open("wb") as copy:
            shutil.copyfileobj(stream, copy)


def merged(name: str) -> str:
    """A path relative to the root, with /bin, /sbin and /lib below /usr."""
    parts = PurePosixPath(name).parts
    parts = parts[1:] if parts and parts[0] in {".", "/"} else parts
    if parts and parts[0] in _MERGED:
        parts = ("usr", *parts)
    return "/".join(parts)


def _retarget(item: tarfile.TarInfo) -> str:
    """The target of a link after its folder moved below /usr: it must point to the same file."""
    before = PurePosixPath(item.name).parts
    before = before[1:] if before and before[0] in {".", "/"} else before
    if item.linkname.startswith("/"):
        return "/" + merged(item.linkname)
    if before[0] not in _MERGED or ".." not in PurePosixPath(item.linkname).parts:
        return item.linkname
    resolved = _resolve((*before[:-1], *PurePosixPath(item.linkname).parts))
    return "/" + merged("/".join(resolved))


def _resolve(parts: Iterable[str]) -> list[str]:
    resolved: list[str] = []
    for part in parts:
        if part == "..":
            del resolved[-1:]
        else:
            resolved.append(part)
    return resolved


def _is_left_out(path: str) -> bool:
    below = path.strip("/")
    if below.endswith("/copyright"):
        return False
    return any(below == name or below.startswith(f"{name}/") for name in _LEFT_OUT)
