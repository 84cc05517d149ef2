"""Images by ``backup create --images``, ``list`` and ``verify``; ``restore --only images``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.key_file import write_key
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.site.recovery.backup_settings import Backup
from appliance.workflows.cluster.restoring.images import ImagesSources
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeRack
from tests.sessions import fake_session
from tests.unit.backup.fake_sources import ETCD, FakeSources
from tests.unit.backup.image_samples import Scene, images_of
from tests.unit.modules.image_registry import filled

Capture = pytest.CaptureFixture[str]


class Sources(FakeSources):
    """Nodes that restore a snapshot as it was saved."""

    def try_snapshot(self, *_: Any) -> Any:
        return ETCD


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    registry = filled()
    with registry.served(tmp_path):
        yield Scene(registry, tmp_path, monkeypatch)


@pytest.fixture
def typed(scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Type words behind ``cluster``, for a site with a place and a key."""
    (tmp_path / "place").mkdir()
    wanted = Backup(recipients=(write_key(tmp_path / "key.txt"),), to=str(tmp_path / "place"))
    settings = scene.site.settings.model_copy(update={"backup": wanted, "runai": None})
    site = replace(scene.site, settings=settings, directory=tmp_path)
    desired = samples.desired(site)
    fake: Any = FakeRack(desired)
    fake.archive, fake.clock = FakeArchive(), FakeClock()
    kept = FakeJournal()

    class Faked(FakedSite):
        journal: Any = kept

        @property
        def archive(self) -> Any:
            return fake.archive

        @property
        def clock(self) -> Any:
            return fake.clock

    def session(*_a: Any, **_k: Any) -> Any:
        return fake_session(fake, kept, clock=fake.clock, archive=fake.archive)

    images = images_of(scene)
    monkeypatch.setattr(
        Application, "connect", lambda *_a, **_k: Faked(site, desired, fake, fake, None)
    )
    monkeypatch.setattr(Application, "site", lambda *_: site)
    monkeypatch.setattr(SiteSession, "session", session)
    monkeypatch.setattr("appliance.cli.wired.backups.sources_of", lambda _: Sources())
    monkeypatch.setattr("appliance.cli.wired.images.image_sources", lambda _: images)
    monkeypatch.setattr(
        "appliance.cli.wired.images.image_restore_ports",
        lambda _, backup: ImagesSources(images, backup),
    )
    return lambda *words: run(["cluster", *words, "--site", str(tmp_path)])


def made(typed: Callable[..., int], capsys: Capture, tmp_path: Path) -> tuple[str, str]:
    """The file of a backup with images, and its key."""
    assert typed("backup", "create", "--images", "--yes", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert "images" in told["backup"]["kinds"]
    return str(tmp_path / "place" / f"{told['backup']['id']}.backup"), str(tmp_path / "key.txt")


def test_a_backup_with_images_is_made_listed_and_verified(
    typed: Callable[..., int], capsys: Capture, tmp_path: Path
) -> None:
    file, key = made(typed, capsys, tmp_path)
    assert typed("backup", "list") == 0
    assert re.search(r"whole,\s+with\s+images", capsys.readouterr().out)
    assert typed("backup", "verify", file, "--identity", key) == 0
    assert "images: compared: 5 images, 13 blobs, 0.5 MB" in capsys.readouterr().out


def test_a_dry_run_says_what_images_take(typed: Callable[..., int], capsys: Capture) -> None:
    assert typed("backup", "create", "--images", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "cp1: 5 images of the registry, 0.5 MB in 13 blobs, each once" in said


def test_what_was_lost_comes_back_and_the_end_names_it(
    typed: Callable[..., int], scene: Scene, capsys: Capture, tmp_path: Path
) -> None:
    file, key = made(typed, capsys, tmp_path)
    words = ("restore", file, "--identity", key, "--only", "images")
    assert typed(*words, "--yes") == 0
    assert "nothing to do: the registry on cp1 has 5 images" in capsys.readouterr().out
    del scene.registry.tags["pause"]
    scene.registry.put("team/train:1", b"newer")
    assert typed(*words, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "brings back 1, 0.5 MB in 3 blobs: pause:3.6" in said
    assert "stays as it is, another image has the name: team/train:1" in said
    assert typed(*words, "--yes") == 0
    said = capsys.readouterr().out
    assert "verified: the registry on cp1 has 1 images again" in said
    assert "pushed: pause:3.6" in said
    assert "left as it is: team/train:1: another image has this name" in said


def test_the_data_of_json_is_whole(
    typed: Callable[..., int], scene: Scene, capsys: Capture, tmp_path: Path
) -> None:
    file, key = made(typed, capsys, tmp_path)
    scene.registry.forget()
    words = ("restore", file, "--identity", key, "--only", "images", "-o", "json")
    assert typed(*words, "--yes") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["done"], told["node"], told["refusals"]) == (True, "cp1", [])
    assert sorted(told["pushed"]) == sorted(scene.registry.images()) == sorted(told["lacking"])


def test_without_a_terminal_or_with_what_does_not_belong_nothing_is_pushed(
    typed: Callable[..., int], scene: Scene, capsys: Capture, tmp_path: Path
) -> None:
    file, key = made(typed, capsys, tmp_path)
    scene.registry.forget()
    words = ("restore", file, "--identity", key, "--only", "images")
    assert typed(*words) == 3
    assert typed(*words, "--volume", "team/data") == 2
    assert typed(*words, "--new-machines") == 2
    assert scene.registry.images() == {}
