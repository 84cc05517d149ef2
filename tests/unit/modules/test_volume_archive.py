"""What a volume holds comes back as it was; an archive of another hand leads nowhere."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load_utils

load_utils("appliance_volume_extract")
from ansible.module_utils import appliance_volume_archive as archive  # noqa: E402
from ansible.module_utils import appliance_volume_extract as extract  # noqa: E402

MOST = 1 << 30


def opened(path: Path) -> int:
    return os.open(str(path), os.O_RDONLY | os.O_DIRECTORY)


def packed(path: Path) -> tuple[bytes, Any, Any]:
    out, handle = io.BytesIO(), opened(path)
    try:
        walk, listing = archive.write(handle, out)
    finally:
        os.close(handle)
    return out.getvalue(), walk, listing


def unpacked(content: bytes, folder: Path, most: int = MOST) -> Any:
    folder.mkdir(mode=0o700)
    handle = opened(folder)
    try:
        return extract.extract(io.BytesIO(content), handle, most, MOST)
    finally:
        os.close(handle)


def listed(path: Path) -> Any:
    handle = opened(path)
    try:
        return archive.listing_of(handle)[1].told()
    finally:
        os.close(handle)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A folder with one of everything."""
    top = tmp_path / "volume"
    (top / "b" / "deep").mkdir(parents=True)
    (top / "a.txt").write_bytes(b"text" * 1000)
    (top / "b" / "empty").write_bytes(b"")
    (top / "b" / "deep" / ("n" * 200)).write_bytes(os.urandom(700_001))
    (top / os.fsdecode(b"\xff name\n")).write_bytes(b"x")
    (top / "tool").write_bytes(b"#!/bin/sh\n")
    (top / "tool").chmod(0o4750)
    os.link(top / "a.txt", top / "b" / "again.txt")
    (top / "out").symlink_to("/etc/passwd")
    os.mkfifo(top / "pipe")
    with (top / "holes").open("wb") as file:
        file.seek(3 << 20)
        file.write(b"data" * 4096)
        file.truncate(64 << 20)
    for path in (top / "b", top / "a.txt"):
        with contextlib.suppress(OSError):
            os.setxattr(path, "user.note", b"\0\xff")
    os.utime(top / "b", ns=(1, 1_234_567_890_123_456_789))
    return top


def test_everything_comes_back_as_it_was(volume: Path, tmp_path: Path) -> None:
    content, walk, listing = packed(volume)
    back = tmp_path / "back"
    came = unpacked(content, back)
    assert (walk.changed, walk.left_out) == ([], [])
    assert came.told() == listing.told()
    assert listed(back)["digest"] == listed(volume)["digest"] == listing.told()["digest"]
    assert stat.S_IMODE((back / "tool").stat().st_mode) == 0o4750
    assert (back / "a.txt").stat().st_ino == (back / "b" / "again.txt").stat().st_ino
    assert (back / "b").stat().st_mtime_ns == 1_234_567_890_123_456_789
    assert str((back / "out").readlink()) == "/etc/passwd"
    assert (back / "holes").stat().st_blocks * 512 < 1 << 20
    assert len(content) < 4 << 20, "holes were stored"


def test_tar_of_others_reads_the_archive(volume: Path) -> None:
    content, _, _ = packed(volume)
    with tarfile.open(fileobj=io.BytesIO(content)) as found:
        names = found.getnames()
        assert {"a.txt", "b/deep/" + "n" * 200, "out", "pipe"} <= set(names)
        text = found.extractfile("a.txt")
        assert text is not None
        assert text.read() == b"text" * 1000


def test_a_socket_is_named_and_left_out(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(volume)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("server.sock")
        content, walk, _ = packed(volume)
    assert walk.left_out == [("server.sock", "a socket, which is in no backup")]
    assert b"server.sock" not in content


def test_a_file_that_changes_while_it_is_read_is_named(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = archive.pieces_of

    def pieces(handle: int, entry: Any) -> Any:
        if entry.path == "a.txt":
            (volume / "a.txt").write_bytes(b"short")
        yield from plain(handle, entry)

    monkeypatch.setattr(archive, "pieces_of", pieces)
    content, walk, _ = packed(volume)
    assert walk.changed == ["a.txt", "b/again.txt"], "its second name has the later content"
    unpacked(content, tmp_path / "back")
    assert (tmp_path / "back" / "a.txt").stat().st_size == 4000


def _entry(path: str, kind: str = "file", data: bytes = b"", **more: Any) -> bytes:
    state = (0o644 if kind == "file" else 0o755, os.getuid(), os.getgid(), 10**18)
    extents = [(0, len(data))] if data else []
    one = archive.Entry(path, kind, state, size=len(data), extents=extents, **more)
    return bytes(archive.header(one)) + data + bytes(-len(data) % 512)


TOP = _entry(".", "folder")
END = bytes(1024)
HOSTILE: dict[str, Callable[[], bytes]] = {
    "a path that leads up": lambda: TOP + _entry("../x") + END,
    "a path within that leads up": lambda: TOP + _entry("a", "folder") + _entry("a/../../x") + END,
    "an absolute path": lambda: TOP + _entry("/srv/x") + END,
    "below a link": lambda: TOP + _entry("a", "link", target="/srv") + _entry("a/x") + END,
    "below a folder that is complete": lambda: (
        TOP + _entry("a", "folder") + _entry("b") + _entry("a/x") + END
    ),
    "a name twice": lambda: TOP + _entry("a") + _entry("a") + END,
    "a folder where a link is": lambda: (
        TOP + _entry("a", "link", target="/srv") + _entry("a", "folder") + END
    ),
    "a further name of what is outside": lambda: (
        TOP + _entry("a", "hard", target="../../etc/passwd") + END
    ),
    "a further name through a link": lambda: (
        TOP + _entry("a", "link", target="/etc") + _entry("b", "hard", target="a/passwd") + END
    ),
    "a further name of a link": lambda: (
        TOP + _entry("a", "link", target="/etc/passwd") + _entry("b", "hard", target="a") + END
    ),
    "no folder first": lambda: _entry("a") + END,
    "the folder twice": lambda: TOP + TOP + END,
    "nothing": lambda: END,
    "cut": lambda: TOP + _entry("a", data=b"x" * 600)[:-100],
    "more data than was said": lambda: TOP + _entry("a", data=b"x" * 5000) + END,
    "a device": lambda: TOP + _device() + END,
    "a header of any length": lambda: TOP + _long() + END,
}


def _device() -> bytes:
    info = tarfile.TarInfo("sda")
    info.type, info.devmajor, info.devminor = tarfile.BLKTYPE, 8, 0
    return info.tobuf(tarfile.PAX_FORMAT)


def _long() -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 33
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("case", HOSTILE)
def test_an_archive_of_another_hand_is_refused_and_leads_nowhere(case: str, tmp_path: Path) -> None:
    with pytest.raises((extract.ArchiveError, OSError)):
        unpacked(HOSTILE[case](), tmp_path / "inner", most=4096)
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    assert not Path("/srv/x").exists()


@pytest.mark.parametrize("place", [*range(0, 4096, 31)])
def test_a_changed_byte_is_an_error_of_ours_or_harmless(place: int, tmp_path: Path) -> None:
    content = bytearray(TOP + _entry("a", "folder") + _entry("a/b", data=b"z" * 700) + END)
    content[place % len(content)] ^= 0x41
    with contextlib.suppress(extract.ArchiveError, OSError):
        unpacked(bytes(content), tmp_path / "inner")
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
