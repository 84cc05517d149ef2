"""Small files, written only where they differ."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

text_files = load("text_files")


def entry(path: Path, content: str = "x", **more: Any) -> dict[str, Any]:
    names = {"owner": pwd.getpwuid(os.getuid())[0], "group": grp.getgrgid(os.getgid())[0]}
    return {
        "path": str(path),
        "content": content,
        "mode": "0640",
        "absent": False,
        **names,
        **more,
    }


def test_a_file_is_written_once_with_its_folders_mode_and_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    paths, differences = text_files.converge([entry(path)], check_mode=False)
    assert paths == [str(path)]
    assert differences[0]["after"] == "x\n"
    assert path.read_text() == "x\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert text_files.converge([entry(path)], check_mode=False) == ([], [])


def test_what_its_owner_alone_may_read_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a"
    secret = entry(path, "secret", mode="0600")
    told = []
    for wanted in (secret, secret | {"mode": "0644"}, secret, secret | {"absent": True}):
        paths, differences = text_files.converge([wanted], check_mode=False)
        assert paths == [str(path)]
        told.append(str(differences))
    assert not [text for text in told if "secret" in text]


@pytest.mark.parametrize("drift", ["content", "mode", "link"])
def test_drift_is_detected_and_repaired(drift: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    text_files.converge([entry(path)], check_mode=False)
    if drift == "content":
        path.write_text("y")
    elif drift == "mode":
        path.chmod(0o666)
    else:
        path.unlink()
        path.symlink_to("/etc/hostname")
    assert text_files.converge([entry(path)], check_mode=True)[0] == [str(path)]
    assert text_files.converge([entry(path)], check_mode=False)[0] == [str(path)]
    assert path.read_text() == "x\n"
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640


def test_check_mode_writes_nothing_and_knows_no_group_that_is_yet_to_come(tmp_path: Path) -> None:
    path = tmp_path / "a"
    paths, _ = text_files.converge([entry(path, group="no-such-group")], check_mode=True)
    assert paths == [str(path)]
    assert not path.exists()
    with pytest.raises(KeyError):
        text_files.converge([entry(path, group="no-such-group")], check_mode=False)


def test_a_file_that_must_be_absent_is_removed_even_when_it_is_a_link(tmp_path: Path) -> None:
    path = tmp_path / "default"
    path.symlink_to("/etc/hostname")
    assert text_files.converge([entry(path, absent=True)], check_mode=False)[0] == [str(path)]
    assert not path.is_symlink()
    assert text_files.converge([entry(path, absent=True)], check_mode=False)[0] == []
