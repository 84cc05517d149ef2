"""The probe and the role judge alike whether a folder is the one that was exported before."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from appliance.probe.services import shared_storage
from tests.unit.modules.loading import load
from tests.unit.probe import recorded

ROLE: Any = load("nfs_folder", role="nfs_server")
A, B = "a" * 32, "b" * 32
HERE = {"device": 1, "inode": 2}
VOLUME = ["appliance-volume-01"]


class Site:
    """A recorded machine on which a folder is, or was, exported."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outputs = recorded.machine({"machine": "bare-debian-12"}, folder)
        self.folder = self.root / "srv" / "runai"
        self.mark = self.root / "var/lib/appliance/nfs-export.json"
        self.mark.parent.mkdir(parents=True, exist_ok=True)

    def export(self) -> None:
        ROLE.Folder(str(self.folder), self.mark, dict).converge(os.getuid(), 0o777, True)
        told = json.loads(self.mark.read_text())
        self.mark.write_text(json.dumps({**told, "path": "/srv/runai", "asked": "/srv/runai"}))

    def seen(self) -> dict[str, Any]:
        found = recorded.look(self.root, self.outputs, nfs="198.18.7.11:/srv/runai")
        local: dict[str, Any] = found["storage"]["local"]
        return {key: local[key] for key in ("exists", "empty", "made_by_us", "marked")}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "m")


@pytest.mark.parametrize(
    ("mark", "marker", "names", "same"),
    [
        ({"id": A}, {"id": A}, [], True),
        ({"id": A, **HERE}, {"id": B}, VOLUME, False),
        ({"id": A, **HERE}, None, VOLUME, True),
        ({"id": A, **HERE}, {}, [], False),
        ({"id": A}, None, VOLUME, False),
        (HERE, None, [], True),
        ({"device": 3, "inode": 2}, None, [], False),
        ({"device": 3, "inode": 2}, None, VOLUME, True),
        ({}, {"id": B}, [], True),
        ({}, None, ["theirs"], False),
        ({"id": ["x"]}, {"id": {}}, [], False),
    ],
)
def test_probe_and_role_judge_alike(
    mark: dict[str, Any], marker: dict[str, Any] | None, names: list[str], same: bool
) -> None:
    state = os.stat_result((0o40755, 2, 1, 2, 0, 0, 0, 0, 0, 0))
    assert shared_storage.is_same(mark, marker, state, names) is same
    assert ROLE.is_same(mark, marker, state, names) is same


@pytest.mark.parametrize("name", ["MARKER", "UNFINISHED", "OUR_FOLDERS", "ID"])
def test_probe_and_role_know_the_same_names(name: str) -> None:
    assert getattr(shared_storage, name) == getattr(ROLE, name)


def test_a_folder_is_known_by_its_id_and_stays_empty_with_its_marker(site: Site) -> None:
    assert site.seen() == {"exists": False, "empty": None, "made_by_us": None, "marked": False}
    site.export()
    assert site.seen() == {"exists": True, "empty": True, "made_by_us": True, "marked": True}


def test_the_folder_below_a_disk_that_is_not_mounted_is_another_one(site: Site) -> None:
    site.export()
    site.folder.rename(site.root / "disk")
    assert site.seen() == {"exists": False, "empty": None, "made_by_us": None, "marked": True}
    site.folder.mkdir()
    assert site.seen() == {"exists": True, "empty": True, "made_by_us": False, "marked": True}


def test_a_mark_of_another_path_says_nothing_and_a_damaged_one_is_not_nothing(site: Site) -> None:
    site.export()
    site.mark.write_text(json.dumps({"path": "/srv/other", "asked": "/srv/other", "id": A}))
    assert site.seen()["marked"] is False
    site.mark.write_text("{")
    assert site.seen()["marked"] is True


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_hostile_marker_is_neither_followed_nor_waited_for(site: Site, kind: str) -> None:
    site.export()
    marker = site.folder / ROLE.MARKER
    marker.unlink()
    make = {
        "pipe": lambda: os.mkfifo(marker),
        "link": lambda: marker.symlink_to(site.mark),
        "folder": marker.mkdir,
    }
    make[kind]()
    assert site.seen()["made_by_us"] is False
