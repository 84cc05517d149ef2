"""A file on a node is replaced whole, and what lies under its interim name is not followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.modules.loading import load_utils

files = load_utils("appliance_files")


@pytest.mark.parametrize(("content", "kept"), [("ö\n", "ö\n".encode()), (b"\xff", b"\xff")])
def test_text_and_bytes_are_written_and_nothing_is_left_beside_them(
    content: str | bytes, kept: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.conf"
    files.write(path, content, 0o600, (os.getuid(), os.getgid()))
    assert path.read_bytes() == kept
    assert path.stat().st_mode & 0o7777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_mode_a_file_keeps_its_own_and_a_new_one_gets_0644(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    files.write(path, "1")
    assert path.stat().st_mode & 0o7777 == 0o644
    path.chmod(0o640)
    files.write(path, "2")
    assert (path.read_text(), path.stat().st_mode & 0o7777) == ("2", 0o640)


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_what_has_the_interim_name_is_replaced_and_not_followed(kind: str, tmp_path: Path) -> None:
    path, interim, other = (tmp_path / name for name in ("a.conf", ".a.conf.new", "other"))
    other.write_text("another's")
    if kind == "file":
        interim.write_text("half of a file that a killed run wro")
    elif kind == "link":
        interim.symlink_to(other)
    else:
        os.mkfifo(interim)
    files.write(path, "whole", 0o600)
    assert path.read_text() == "whole"
    assert other.read_text() == "another's"
    assert sorted(tmp_path.iterdir()) == [path, other]
