"""What a backup writes on a node is of its own folder, and goes; whatever is not ours stays."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.modules.loading import load_utils

folders = load_utils("appliance_backup_folder")
NAME = "rack7-20260921T141320Z-etcd"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folders, "PLACE", tmp_path / "backup")
    return tmp_path / "backup"


def left(place: Path) -> Path:
    """What a run that was killed leaves."""
    folder = place / "0123"
    (folder / "data").mkdir(parents=True)
    (folder / "data/snapshot.db").write_text("x")
    (folder / "backup.json").write_bytes(folders.marker(folder))
    return folder


def test_a_run_has_a_folder_of_its_own(place: Path) -> None:
    with folders.working_folder(NAME) as data:
        assert (data.parent.stat().st_mode & 0o777, data.is_dir()) == (0o700, True)
        with pytest.raises(folders.FolderError, match="in use"), folders.working_folder(NAME):
            raise AssertionError
        (data / "file").write_text("x")
    assert list(place.iterdir()) == []


def test_what_a_killed_run_left_goes_with_the_next(place: Path) -> None:
    left(place)
    (place / "4567").mkdir()
    with folders.working_folder(NAME):
        assert [path.name for path in place.iterdir()] == [NAME]


def test_a_run_that_still_goes_on_is_left_alone(place: Path) -> None:
    other = left(place)
    handle = os.open(other / "backup.json", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with folders.working_folder(NAME):
        assert (other / "data/snapshot.db").exists()
    os.close(handle)


def no_marker(folder: Path) -> None:
    (folder / "backup.json").unlink()


def another_marker(folder: Path) -> None:
    (folder / "backup.json").write_text('{"made_by": "somebody", "folder": "0123"}')


def another_file(folder: Path) -> None:
    (folder / "precious").write_text("x")


def a_link(folder: Path) -> None:
    (folder / "data").rename(folder.parent.parent / "elsewhere")
    (folder / "data").symlink_to(folder.parent.parent / "elsewhere")


@pytest.mark.parametrize("change", [no_marker, another_marker, another_file, a_link])
def test_what_no_backup_wrote_stays(place: Path, change: Callable[[Path], None]) -> None:
    folder = left(place)
    change(folder)
    before = sorted(str(path) for path in place.parent.rglob("*"))
    with pytest.raises(folders.FolderError):
        folders.take_away(folder)
    with folders.working_folder(NAME):
        pass
    assert sorted(str(path) for path in place.parent.rglob("*")) == before


@pytest.mark.parametrize("name", ["../etc", "", "a/b", ".hidden", "x" * 200])
def test_a_name_that_leads_elsewhere_is_refused(place: Path, name: str) -> None:
    with pytest.raises(folders.FolderError, match="not the name of"), folders.working_folder(name):
        raise AssertionError
    assert not place.exists()


def test_a_place_that_is_a_link_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    place.symlink_to(tmp_path / "other")
    with pytest.raises(folders.FolderError, match="no folder of ours"):
        folders.working_folder(NAME).__enter__()
