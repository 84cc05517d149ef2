"""Whoever writes into a volume cannot keep the rest of it from being saved or restored."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.test_volume_archive import listed, packed, unpacked

from ansible.module_utils import appliance_volume_archive as archive  # isort: skip


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    top = tmp_path / "volume"
    top.mkdir()
    (top / "a").write_bytes(b"first")
    return top


def comes_back(volume: Path, content: bytes, listing: Any) -> Path:
    """Restore it, and compare as a restore does."""
    back = volume.parent / "back"
    assert unpacked(content, back).told() == listing.told()
    assert listed(back)["digest"] == listing.told()["digest"]
    return back


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777])
def test_a_pipe_with_any_mode_comes_back(volume: Path, mode: int) -> None:
    os.mkfifo(volume / "pipe")
    (volume / "pipe").chmod(mode)
    content, _, listing = packed(volume)
    assert stat.S_IMODE((comes_back(volume, content, listing) / "pipe").stat().st_mode) == mode


@pytest.mark.parametrize("where", [".", "a"])
def test_more_attributes_than_are_read_back_are_named_and_left_out(
    volume: Path, where: str
) -> None:
    try:
        for number in range(archive.MOST_XATTRS + 1):
            os.setxattr(volume / where, f"user.{number}", b"")
    except OSError:
        pytest.skip("this file system has no room for them")
    content, walk, listing = packed(volume)
    assert walk.left_out == [(where, "without its extended attributes: there are too many")]
    assert (comes_back(volume, content, listing) / "a").read_bytes() == b"first"


def test_attributes_that_fill_a_header_are_named_and_left_out(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"user.{'%' * 60}{number}" for number in range(90)]
    monkeypatch.setattr(archive, "xattrs_of", lambda _handle: dict.fromkeys(names, b"v" * 700))
    monkeypatch.setattr(archive, "MOST_HEADER_BYTES", 1 << 16)
    content, walk, listing = packed(volume)
    assert [path for path, _ in walk.left_out] == [".", "a"]
    comes_back(volume, content, listing)


def _while_read(monkeypatch: pytest.MonkeyPatch, name: str, change: Any) -> None:
    plain = archive.pieces_of

    def pieces(handle: int, entry: Any) -> Any:
        yield from plain(handle, entry)
        if entry.path == name:
            change()

    monkeypatch.setattr(archive, "pieces_of", pieces)


def test_a_mode_that_changes_between_two_names_of_a_file_spoils_nothing(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.link(volume / "a", volume / "b")
    with monkeypatch.context() as patch:
        _while_read(patch, "a", lambda: (volume / "a").chmod(0o600))
        content, _, listing = packed(volume)
    back = comes_back(volume, content, listing)
    assert (back / "a").stat().st_ino == (back / "b").stat().st_ino


def test_another_file_with_the_number_of_one_that_went_has_its_own_content(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ext4 gives the number of a removed file to the next one."""
    os.link(volume / "a", volume / "b")
    old = (volume / "a").stat().st_ino

    def exchanged() -> None:
        new = os.open(volume / "b", os.O_WRONLY | os.O_TRUNC)
        os.write(new, b"another content")
        os.close(new)
        os.utime(volume / "b", ns=(1, 1))
        (volume / "a").unlink()

    with monkeypatch.context() as patch:
        _while_read(patch, "a", exchanged)
        content, walk, listing = packed(volume)
    assert (volume / "b").stat().st_ino == old, "the premise: it has the number of the first"
    back = comes_back(volume, content, listing)
    assert (back / "a").read_bytes() == b"first"
    assert (back / "b").read_bytes() == b"another content"
    assert "b" in walk.changed


def test_names_of_files_fill_no_memory(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "c", "d"):
        (volume / f"{name}1").write_bytes(name.encode())
        os.link(volume / f"{name}1", volume / f"{name}2")
    monkeypatch.setattr(archive, "MOST_NAMES_BYTES", 600)
    content, walk, listing = packed(volume)
    assert listing.counts["hard"] == 2
    assert (walk.changed, walk.left_out) == ([], [])
    assert (comes_back(volume, content, listing) / "d2").read_bytes() == b"d"


def test_what_is_left_out_fills_no_memory_and_is_counted(volume: Path) -> None:
    for number in range(archive.MOST_NOTED + 7):
        os.mknod(volume / f"s{number:04}", stat.S_IFSOCK | 0o600)
    _, walk, _ = packed(volume)
    assert (len(walk.left_out), walk.left_out.total) == (
        archive.MOST_NOTED,
        archive.MOST_NOTED + 7,
    )


def test_a_file_that_becomes_a_device_is_never_opened(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open a watchdog starts it; a pod as root may make its node in the volume."""
    try:
        os.mknod(volume.parent / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices are made as root")
    plain, opened = os.open, []

    def exchanging(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if path == "a" and (volume / "a").is_file():
            (volume.parent / "null").rename(volume / "a")
        handle = plain(path, flags, *args, **more)
        if stat.S_ISCHR(os.fstat(handle).st_mode) and not flags & os.O_PATH:
            opened.append(path)
        return handle

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", exchanging)
        _, walk, listing = packed(volume)
    assert (volume / "a").is_char_device(), "the premise"
    assert opened == []
    assert walk.left_out == [("a", "it became something else while it was read")]
    assert listing.counts["file"] == 0


@pytest.mark.parametrize("where", ["", "inner"])
def test_a_folder_whose_names_change_while_it_is_read_is_named(
    volume: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What moves from where was not read yet to where was read is in no copy."""
    (volume / "inner").mkdir()
    (volume / "inner" / "m").write_bytes(b"x")
    for path in (volume, volume / "inner"):
        os.utime(path, ns=(1, 1))
    with monkeypatch.context() as patch:
        moved = volume / where / "0"
        _while_read(patch, "inner/m", lambda: moved.write_bytes(b"moved"))
        _, walk, _ = packed(volume)
    assert walk.changed == [where or "."]


def test_an_acl_that_changes_while_its_file_is_looked_at_spoils_nothing(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ACL says a mode, too: one of before it would not come back."""
    entries = ((1, 7, -1), (2, 7, 12345), (4, 0, -1), (16, 7, -1), (32, 4, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *one) for one in entries)
    (volume / "a").chmod(0o2600)
    plain = archive.xattrs_of

    def changed(handle: int) -> Any:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            try:
                os.setxattr(volume / "a", "system.posix_acl_access", acl)
            except OSError:
                pytest.skip("this file system has no ACLs")
        return plain(handle)

    with monkeypatch.context() as patch:
        patch.setattr(archive, "xattrs_of", changed)
        content, walk, listing = packed(volume)
    assert walk.left_out == []
    assert (
        stat.S_IMODE((comes_back(volume, content, listing) / "a").stat().st_mode) & 0o777 == 0o774
    )


def test_an_acl_that_nobody_reads_is_left_out(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"system.posix_acl_access": b"\2\0\0\0\1"}
    monkeypatch.setattr(archive, "xattrs_of", lambda _handle: dict(wrong))
    _, walk, _ = packed(volume)
    assert [path for path, _ in walk.left_out] == [".", "a"]
