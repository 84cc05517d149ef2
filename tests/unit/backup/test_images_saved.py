"""Images of the registry go into a backup where they are asked for, and come back out of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.opened import BackupFile
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.store import BackupStore
from appliance.errors import ClusterError, NodeUnreachable, NotHealthy, PreflightFailed, Refused
from appliance.model.backup.restoring.images import MeasuredImages
from appliance.workflows.cluster.backup import BackupRequest, create_backup
from appliance.workflows.cluster.backups import gathering
from appliance.workflows.cluster.backups.images import plan_images
from appliance.workflows.cluster.backups.volumes import VolumesAsked
from appliance.workflows.cluster.restoring import images as restoring
from appliance.workflows.cluster.restoring.images import (
    ImagesRequest,
    ImagesResult,
    ImagesSources,
    restore_images,
    saved_images,
)
from tests import samples
from tests.fakes import FakeRack, run
from tests.sessions import fake_session
from tests.unit.backup.bench import Bench, Killed, bench_in
from tests.unit.backup.image_samples import Scene
from tests.unit.modules.image_registry import filled
from tests.unit.modules.test_registry_push import digest_of

BASE = digest_of(b"base layer" * 50_000)
PART = f"images/blobs/{BASE.replace(':', '/')}"


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    registry = filled()
    with registry.served(tmp_path):
        yield Scene(registry, tmp_path, monkeypatch)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_in(tmp_path)


def session_of(bench: Bench, scene: Scene) -> Any:
    return fake_session(
        FakeRack(samples.desired(scene.site)), bench.journal, clock=bench.clock,
        observer=bench.observer, archive=bench.archive, documents=bench.documents,
        backup_store=BackupStore(FolderPlace(bench.folder)), backup_sources=bench.sources,
    )  # fmt: skip


def created(
    bench: Bench, scene: Scene, *, free: int | None = None, images: bool = True, **more: Any
) -> Any:
    who = (scene.site, run("cluster backup create"), (bench.recipient,), bench.keep, "0.1.0")
    request = BackupRequest(*who, volumes=VolumesAsked(free_bytes=free), **more)
    session, sources = session_of(bench, scene), scene.images if images else None
    return create_backup(request, session, lambda _: True, None, sources)


def restored(
    bench: Bench, scene: Scene, name: str, confirm: Callable[[Any], bool] = lambda _: True,
    **more: Any,
) -> ImagesResult:  # fmt: skip
    request = ImagesRequest(scene.site, run("cluster restore"), **more)
    backup = BackupFile(bench.folder / f"{name}.backup", bench.identity)
    ports = ImagesSources(scene.images, backup)
    return restore_images(request, session_of(bench, scene), ports, confirm)


def test_a_lost_registry_has_every_image_again_by_the_backup(bench: Bench, scene: Scene) -> None:
    before = scene.registry.images()
    about = created(bench, scene).sidecar.about
    assert "images" in about.kinds
    scene.registry.forget()
    done = restored(bench, scene, about.id)
    assert scene.registry.images() == before
    assert (done.done, sorted(done.pushed)) == (True, sorted(before))
    assert restored(bench, scene, about.id).pushed == ()
    assert scene.nodes.acts == ["look", "gather", "look", "look", "load", "look"]


def test_without_a_word_no_image_is_in_a_backup(bench: Bench, scene: Scene) -> None:
    about = created(bench, scene, images=False).sidecar.about
    assert bench.manifest(about.id).of_kind("images") == ()
    assert scene.nodes.acts == []
    with pytest.raises(NotHealthy, match="it has no images"):
        restored(bench, scene, about.id)


def test_the_forecast_names_what_it_takes_and_touches_nothing(bench: Bench, scene: Scene) -> None:
    del scene.registry.blobs[digest_of(b"another")]
    told = "\n".join(created(bench, scene, dry_run=True).planned)
    assert "cp1: 4 images of the registry, 0.5 MB in 10 blobs, each once" in told
    assert "not in it, because the registry has it not whole: team/train:2: blob sha256:" in told
    assert "the place for backups does not say what it has free" in told
    assert bench.names() == []
    assert scene.nodes.acts == ["look"]


def test_what_does_not_fit_is_refused_before_any_change(bench: Bench, scene: Scene) -> None:
    with pytest.raises(PreflightFailed, match="0 MB free in the place for backups, expected 1 MB"):
        created(bench, scene, free=400_000)
    assert bench.names() == []
    found = MeasuredImages(1, 1, 10**6)

    class Sources:
        def measure(self) -> MeasuredImages:
            return found

    sources: Any = Sources()
    assert plan_images(scene.site, sources, 2 * 10**6, 0)
    with pytest.raises(PreflightFailed, match="what else was asked for"):
        plan_images(scene.site, sources, 2 * 10**6, 10**6)


def test_the_registry_of_an_organisation_is_refused(bench: Bench, scene: Scene) -> None:
    scene.site = samples.site(1, 2, runai={}, external_registry={"ca": "ca.crt"})
    with pytest.raises(PreflightFailed, match="the organisation's own registry"):
        created(bench, scene)
    assert scene.nodes.acts == []


def test_a_registry_that_is_away_stops_it_before_any_change(bench: Bench, scene: Scene) -> None:
    scene.nodes.node.registry.address = "127.0.0.1:1"
    with pytest.raises(NodeUnreachable, match="cp1: the registry does not answer"):
        created(bench, scene)
    assert bench.names() == []


def test_a_blob_that_is_lost_costs_the_images_that_need_it(bench: Bench, scene: Scene) -> None:
    scene.registry.breaks[BASE] = 0
    about = created(bench, scene).sidecar.about
    assert {one.what for one in about.missing} >= {PART}
    assert bench.manifest(about.id).part(PART) is None
    scene.registry.breaks.clear()
    scene.registry.forget()
    done = restored(bench, scene, about.id)
    assert sorted(done.plan.broken) == ["pause:3.6", "team/train:1"]
    assert sorted(scene.registry.images()) == ["multi:1", "multi:amd64", "team/train:2"]


def test_a_connection_that_breaks_loses_images_and_no_backup(bench: Bench, scene: Scene) -> None:
    scene.nodes.cut = 6000
    about = created(bench, scene).sidecar.about
    missing = [one.why for one in about.missing if one.what.startswith("images/blobs/")]
    assert len(missing) >= 3
    assert all("broke" in why for why in missing)
    assert bench.manifest(about.id).part("etcd/snapshot.db") is not None


def test_a_run_that_is_killed_leaves_no_backup_and_the_next_one_is_whole(
    bench: Bench, scene: Scene
) -> None:
    scene.nodes.cut, scene.nodes.ending = 200_000, Killed()
    with pytest.raises(Killed):
        created(bench, scene)
    assert [name for name in bench.names() if name.endswith((".backup", ".json"))] == []
    scene.nodes.cut = None
    assert "images" in created(bench, scene).sidecar.about.kinds


def test_much_of_it_is_told_at_each_tenth(
    bench: Bench, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "TOLD_BYTES", 1000)
    monkeypatch.setattr(restoring, "TOLD_BYTES", 1000)
    about = created(bench, scene).sidecar.about
    scene.registry.forget()
    restored(bench, scene, about.id)
    said = [one for one in bench.observer.said if "cp1: images: 0.0 of 0.0 GB" in one]
    assert len(said) >= 4


def test_one_with_images_goes_by_the_same_rules_as_others(bench: Bench, scene: Scene) -> None:
    """The newest one of each kind of parts stays, so the last one with images does."""
    made = []
    for images in (True, True, False, False, False):
        made.append(created(bench, scene, images=images).sidecar.about.id)
        bench.clock.sleep(86_400 * 2)
    held = BackupStore(FolderPlace(bench.folder)).held()
    assert [one.id for one in held] == [made[1], *made[3:]]


# -- what a restore refuses ------------------------------------------------------------------


def test_a_file_that_the_journal_does_not_know_is_not_pushed(bench: Bench, scene: Scene) -> None:
    about = created(bench, scene).sidecar.about
    scene.registry.forget()
    bench.journal.records.clear()
    with pytest.raises(PreflightFailed, match="the journal of this site does not know"):
        restored(bench, scene, about.id)
    assert scene.registry.images() == {}
    assert restored(bench, scene, about.id, made_of_it=True).done


def test_of_another_site_or_without_room_nothing_is_pushed(
    bench: Bench, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = created(bench, scene).sidecar.about
    scene.registry.forget()
    with pytest.raises(PreflightFailed, match="a backup of the site"):
        restored(bench, scene, about.id, rehearses="elsewhere")
    monkeypatch.setattr("ansible.module_utils.appliance_image_restore.RESERVE", 1 << 62)
    with pytest.raises(PreflightFailed, match="room for 0 MB of images"):
        restored(bench, scene, about.id)
    assert scene.registry.images() == {}


def test_a_registry_that_does_not_say_what_it_has_gets_nothing(bench: Bench, scene: Scene) -> None:
    about = created(bench, scene).sidecar.about

    def ill(path: str) -> tuple[int, bytes, dict[str, str]]:
        assert path
        return 500, b"", {}

    scene.registry.answer = ill  # type: ignore[method-assign]
    with pytest.raises(PreflightFailed, match="no answer for 5 images, first multi:1"):
        restored(bench, scene, about.id)


def test_what_was_shown_is_what_is_done(bench: Bench, scene: Scene) -> None:
    about = created(bench, scene).sidecar.about
    del scene.registry.tags["pause"]

    def lost_meanwhile(_plan: Any) -> bool:
        scene.registry.forget()
        return True

    with pytest.raises(Refused, match="the registry has changed since this was shown"):
        restored(bench, scene, about.id, lost_meanwhile)
    with pytest.raises(Refused):
        restored(bench, scene, about.id, lambda _: False)
    assert scene.registry.images() == {}


def test_killed_in_the_middle_the_same_command_ends_it(bench: Bench, scene: Scene) -> None:
    before = scene.registry.images()
    about = created(bench, scene).sidecar.about
    scene.registry.forget()
    real, pushes = scene.nodes.node.act, iter(range(3))

    def dies(want: Any, given: bytes) -> Any:
        if want["act"] == "load" and next(pushes) == 0:
            raise NodeUnreachable("cp1: the connection broke")
        return real(want, given)

    scene.nodes.node.act = dies  # type: ignore[method-assign]
    with pytest.raises(ClusterError) as raised:
        restored(bench, scene, about.id)
    assert "run the same command again" in (raised.value.hint or "")
    assert restored(bench, scene, about.id).done
    assert scene.registry.images() == before


def test_a_forged_record_is_not_believed(bench: Bench, scene: Scene) -> None:
    about = created(bench, scene).sidecar.about
    backup: Any = BackupFile(bench.folder / f"{about.id}.backup", bench.identity)
    true, parts = backup.manifest, backup.manifest.parts
    other = tuple(replace(p, sha256="0" * 64) if p.name == PART else p for p in parts)
    backup.manifest = replace(true, parts=other)
    backup.read = lambda _name, take: take(io.BytesIO(b'{"registry": "x", "images": []}'))
    with pytest.raises(NotHealthy, match="has another sha256 than its name"):
        saved_images(backup)
    backup.read = lambda _name, take: take(io.BytesIO(b"[]"))
    with pytest.raises(NotHealthy, match="cannot be read"):
        saved_images(backup)
