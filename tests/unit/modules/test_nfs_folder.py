"""No system folder is exported, and a folder that is not ours is neither chmod-ed nor chown-ed."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from appliance.model import export_path
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
    assert place.have() == ["made", "mode"]
    assert place.path.stat().st_mode & 0o7777 == 0o777
    assert place.have() == []


def test_an_empty_folder_and_an_empty_file_system_are_taken(place: Place) -> None:
    (place.path / "lost+found").mkdir(parents=True)
    assert place.have() == ["mode"]


def test_a_folder_with_somebodys_files_is_refused_and_stays_as_it_is(place: Place) -> None:
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


def test_what_we_made_is_ours_also_after_somebody_changed_owner_and_mode(place: Place) -> None:
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
