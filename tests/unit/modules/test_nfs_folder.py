"""No system folder is exported, and a folder that is not ours is neither chmod-ed nor chown-ed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from appliance.model.site import export_path
from tests.unit.modules.loading import load

OWNER = os.getuid()


@pytest.fixture
def nfs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load("nfs_folder", role="nfs_server")
    trees = tuple(tree for tree in module.TREES if tree != "/tmp")  # noqa: S108 - the tests' own
    monkeypatch.setattr(module, "TREES", trees)
    return module


class Place:
    """A folder that is to be exported, and what the module does with it."""

    def __init__(self, nfs: Any, root: Path) -> None:
        self.nfs, self.root = nfs, root
        self.path = root / "srv" / "runai"
        self.homes: dict[str, str] = {}

    def folder(self, path: Path | None = None) -> Any:
        return self.nfs.Folder(str(path or self.path), self.root / "mark", lambda: self.homes)

    def have(self, owner: int = OWNER, mode: int = 0o777, *, act: bool = True) -> list[str]:
        folder = self.folder()
        folder.refuse(owner)
        done: list[str] = folder.converge(owner, mode, act)
        return done

    def refused(self, owner: int = OWNER + 1, path: Path | None = None) -> str:
        with pytest.raises(self.nfs.Refused) as caught:
            self.folder(path).refuse(owner)
        return str(caught.value)

    def mark(self) -> Any:
        return json.loads((self.root / "mark").read_text())

    def as_an_earlier_version_left_it(self) -> None:
        self.have()
        (self.path / self.nfs.MARKER).unlink()
        (self.root / "mark").write_text(
            json.dumps({key: self.mark()[key] for key in ("path", "device", "inode")})
        )

    def unmount(self) -> None:
        """The disk goes; the empty folder below shows, with another inode."""
        self.path.rename(self.root / "disk")
        self.path.mkdir()

    def mount(self) -> None:
        self.path.rmdir()
        (self.root / "disk").rename(self.path)


@pytest.fixture
def place(nfs: ModuleType, tmp_path: Path) -> Place:
    return Place(nfs, tmp_path)


def test_node_and_site_check_know_the_same_folders() -> None:
    module = load("nfs_folder", role="nfs_server")
    assert (module.TREES, module.TOPS) == (export_path.TREES, export_path.TOPS)


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/etc", "/etc/", "//etc", "/./etc", "/etc/exports.d", "/root", "/usr", "/home"),
        *("/boot", "/var/lib/etcd", "/var/lib/kubelet/pods", "/var/lib/appliance", "/srv"),
        *("/opt/cni/bin", "/run/docker", "/proc", "/var", "/var/log/pods"),
    ],
)
def test_a_system_folder_is_refused_however_it_is_written(path: str) -> None:
    assert export_path.forbidden(path)
    module: Any = load("nfs_folder", role="nfs_server")
    with pytest.raises(module.Refused, match="the system's folder"):
        module.Folder(path, "/absent/mark", dict).refuse(1001)


@pytest.mark.parametrize("path", ["/srv/runai", "/data", "/export/a", "/etcetera", "/home/nfs/a"])
def test_a_folder_of_its_own_is_none_of_the_systems(path: str) -> None:
    assert export_path.forbidden(path) is None


def test_a_link_to_a_system_folder_is_refused_by_where_it_leads(place: Place) -> None:
    place.path.parent.mkdir()
    place.path.symlink_to("/etc")
    assert "the system's folder /etc" in place.refused()


def test_a_folder_that_is_absent_is_made_once_and_kept(place: Place) -> None:
    assert place.have(act=False) == ["made"]
    assert not place.path.exists()
    assert place.have() == ["made", "marked", "mode"]
    assert place.path.stat().st_mode & 0o7777 == 0o777
    assert place.have() == []


def test_an_empty_folder_and_an_empty_file_system_are_taken(place: Place) -> None:
    (place.path / "lost+found").mkdir(parents=True)
    assert place.have() == ["marked", "mode"]


def test_a_folder_with_foreign_files_is_refused_and_not_changed(place: Place) -> None:
    place.path.mkdir(parents=True, mode=0o750)
    (place.path / "thesis").write_text("years")
    before = place.path.stat()
    words = place.refused()
    assert "is not empty (thesis)" in words
    after = place.path.stat()
    assert (before.st_mode, before.st_uid, before.st_ctime_ns) == (
        after.st_mode,
        after.st_uid,
        after.st_ctime_ns,
    )
    assert not (place.root / "mark").exists()


def test_our_own_folder_stays_ours_after_its_owner_and_mode_changed(place: Place) -> None:
    place.have()
    (place.path / "volume").mkdir()
    place.path.chmod(0o700)
    # As though it belonged to another user now: the mark alone says that it is ours.
    place.folder().refuse(OWNER + 1)
    assert place.have() == ["mode"]


def test_another_folder_at_the_path_of_ours_is_not_ours(place: Place) -> None:
    place.have()
    place.path.rename(place.root / "moved")
    place.path.mkdir()
    (place.path / "theirs").write_text("x")
    assert "is not empty" in place.refused()


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 5000])
def test_a_damaged_mark_proves_nothing(place: Place, text: str) -> None:
    place.path.mkdir(parents=True)
    (place.path / "theirs").write_text("x")
    (place.root / "mark").write_text(text)
    assert "is not empty" in place.refused()


def test_a_home_of_a_user_is_refused_whoever_owns_it(place: Place) -> None:
    place.path.mkdir(parents=True)
    for home in (place.path, place.path / "alice", place.path.parent):
        place.homes = {str(home): "alice"}
        assert "the home of user alice" in place.refused(OWNER)


def test_a_file_is_no_folder(place: Place) -> None:
    place.path.parent.mkdir()
    place.path.write_text("x")
    assert "is no folder" in place.refused()


def test_the_folder_below_a_disk_that_is_not_mounted_is_refused_and_nothing_is_written(
    place: Place,
) -> None:
    place.have()
    mark = (place.root / "mark").read_bytes()
    place.unmount()
    before = place.path.stat()
    with pytest.raises(place.nfs.Lost, match="not the folder that the appliance exported before"):
        place.folder().refuse(OWNER)
    after = place.path.stat()
    assert (before.st_mode, before.st_ctime_ns) == (after.st_mode, after.st_ctime_ns)
    assert (place.root / "mark").read_bytes() == mark
    place.mount()
    assert place.have() == []


def test_a_folder_that_was_exported_and_is_absent_is_not_made_again(place: Place) -> None:
    place.have()
    place.path.rename(place.root / "disk")
    with pytest.raises(place.nfs.Lost, match="is absent"):
        place.folder().refuse(OWNER)
    assert not place.path.exists()


def test_what_an_earlier_version_wrote_down_is_refused_without_its_disk_too(place: Place) -> None:
    place.as_an_earlier_version_left_it()
    (place.path / "appliance-volume-01").mkdir()
    place.unmount()
    with pytest.raises(place.nfs.Lost):
        place.folder().refuse(OWNER)
    place.mount()
    assert place.have() == ["marked"]
    assert place.have() == []


def test_another_number_of_the_device_after_a_boot_changes_nothing(place: Place) -> None:
    place.as_an_earlier_version_left_it()
    (place.path / "appliance-volume-01").mkdir()
    (place.root / "mark").write_text(json.dumps({**place.mark(), "device": 7, "inode": 2}))
    assert place.have() == ["marked"], "our folders are there: the id is added"
    (place.root / "mark").write_text(json.dumps({**place.mark(), "device": 8, "inode": 3}))
    assert place.have() == []


def test_a_disk_that_was_formatted_is_not_the_one_before(place: Place) -> None:
    place.have()
    (place.path / place.nfs.MARKER).unlink()  # device and inode of a root are as before
    with pytest.raises(place.nfs.Lost, match="empty"):
        place.folder().refuse(OWNER)


def test_a_marker_that_was_removed_beside_our_folders_comes_back(place: Place) -> None:
    place.have()
    number = place.mark()["id"]
    (place.path / "appliance-proof").mkdir()
    (place.path / place.nfs.MARKER).unlink()
    assert place.have() == ["marked"]
    assert json.loads((place.path / place.nfs.MARKER).read_text()) == {"id": number}


def test_data_that_were_copied_with_their_marker_are_known(place: Place) -> None:
    place.have()
    shutil.copytree(place.path, place.root / "larger")
    shutil.rmtree(place.path)
    (place.root / "larger").rename(place.path)
    place.path.chmod(0o777)
    assert place.have() == []


def test_the_export_of_another_site_is_refused_by_its_id(place: Place) -> None:
    place.have()
    (place.path / place.nfs.MARKER).write_text(json.dumps({"id": "a" * 32}))
    (place.path / "appliance-volume-01").mkdir()
    with pytest.raises(place.nfs.Lost, match="this one holds appliance-volume-01"):
        place.folder().refuse(OWNER)


def test_a_new_disk_is_taken_once_a_person_removed_the_mark(place: Place) -> None:
    place.have()
    place.unmount()
    before = place.mark()["id"]
    (place.root / "mark").unlink()
    assert place.have() == ["marked", "mode"]
    assert place.mark()["id"] != before


def test_a_new_system_disk_takes_the_id_that_is_in_the_folder(place: Place) -> None:
    place.have()
    number = place.mark()["id"]
    (place.root / "mark").unlink()
    assert place.have() == ["marked"]
    assert place.mark()["id"] == number


def test_another_path_in_the_site_is_another_export(place: Place) -> None:
    place.have()
    before = place.mark()["id"]
    place.path = place.root / "srv" / "other"
    assert place.have() == ["made", "marked", "mode"]
    assert place.mark()["id"] != before


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 5000])
def test_an_empty_folder_is_not_taken_beside_a_damaged_mark(place: Place, text: str) -> None:
    place.path.mkdir(parents=True)
    (place.root / "mark").write_text(text)
    with pytest.raises(place.nfs.Lost):
        place.folder().refuse(OWNER)
    (place.path / "appliance-proof").mkdir()
    assert place.have() == ["marked", "mode"], "our folders show whose it is"


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "huge", "other"])
def test_a_hostile_marker_stops_nothing_but_this_export(place: Place, kind: str) -> None:
    place.have()
    marker = place.path / place.nfs.MARKER
    marker.unlink()
    make = {
        "pipe": lambda: os.mkfifo(marker),
        "link": lambda: marker.symlink_to(place.root / "mark"),
        "folder": marker.mkdir,
        "huge": lambda: marker.write_text("[" * 10**6),
        "other": lambda: marker.write_text(json.dumps({"id": {"a": ["b"]}})),
    }
    make[kind]()
    with pytest.raises(place.nfs.Lost):
        place.folder().refuse(OWNER)


def test_a_run_that_ended_between_marker_and_mark_is_taken_up(place: Place) -> None:
    place.have()
    (place.root / "mark").unlink()
    (place.path / ".appliance-export.abc").write_text("")
    assert place.have(OWNER) == ["marked"]
    place.folder().refuse(OWNER + 1)


def test_check_mode_writes_nothing(place: Place) -> None:
    place.path.mkdir(parents=True)
    assert place.have(act=False) == ["marked", "mode"]
    assert list(place.path.iterdir()) == []
    assert not (place.root / "mark").exists()
