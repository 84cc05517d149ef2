"""Data of volumes goes into a backup where it is asked for, and what cannot is named."""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.store import BackupStore
from appliance.adapters.backup.volumes.listing import check_archive
from appliance.errors import NotHealthy, PreflightFailed
from appliance.model.backup.volumes.choice import Measured, choose
from appliance.model.backup.volumes.record import VolumeRecord, is_claim, read_record
from appliance.model.documents.strict_json import Unreadable
from appliance.model.site.settings import Nfs
from appliance.workflows.cluster.backup import BackupRequest, create_backup
from appliance.workflows.cluster.backups.volumes import VolumesAsked
from tests import samples
from tests.fakes import FakeRack, run
from tests.sessions import fake_session
from tests.unit.backup.bench import Bench, bench_in
from tests.unit.backup.volume_samples import CLAIMS, FakeVolumes, plain, saved, site
from tests.unit.modules.test_volume_archive import packed

RECORD = "volumes/team/data/volume.json"


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[VolumeRecord, bytes, bytes]:
    return saved(tmp_path / "node", monkeypatch)


@pytest.fixture
def volumes(given: tuple[VolumeRecord, bytes, bytes]) -> FakeVolumes:
    return FakeVolumes(*given[1:])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_in(tmp_path)


def created(bench: Bench, volumes: FakeVolumes | None, asked: VolumesAsked, **more: Any) -> Any:
    desired = samples.desired(site())
    session = fake_session(
        FakeRack(desired), bench.journal, clock=bench.clock, observer=bench.observer,
        archive=bench.archive, documents=bench.documents,
        backup_store=BackupStore(FolderPlace(bench.folder)), backup_sources=bench.sources,
    )  # fmt: skip
    who = (desired.site, run("cluster backup create"), (bench.recipient,), bench.keep, "0.1.0")
    request = BackupRequest(*who, volumes=asked, **more)
    return create_backup(request, session, lambda _: True, volumes)


ONE = VolumesAsked(("team/data",))


def test_a_volume_is_a_part_of_the_backup_with_what_is_known_of_it(
    bench: Bench, volumes: FakeVolumes, given: tuple[VolumeRecord, bytes, bytes]
) -> None:
    done = created(bench, volumes, ONE)
    manifest = bench.manifest(done.sidecar.about.id)
    record, archive = manifest.of_kind("volumes")
    assert (record.name, archive.name) == (RECORD, "volumes/team/data/data.tar.gz")
    assert (archive.size, archive.node) == (len(given[2]), "cp1")
    assert "volumes" in done.sidecar.about.kinds
    assert volumes.asked == [("team/data",)]


def test_without_a_word_no_volume_is_in_a_backup(bench: Bench, volumes: FakeVolumes) -> None:
    done = created(bench, volumes, VolumesAsked())
    assert bench.manifest(done.sidecar.about.id).of_kind("volumes") == ()
    assert volumes.asked == []


def test_a_volume_whose_archive_broke_off_does_not_count_as_saved(
    bench: Bench, volumes: FakeVolumes
) -> None:
    """The newest backup with volumes stays: it has to hold some."""
    volumes.breaks = True
    done = created(bench, volumes, ONE)
    about = done.sidecar.about
    assert [one.name for one in bench.manifest(about.id).of_kind("volumes")] == [RECORD]
    assert "volumes" not in about.kinds
    assert "volumes/team/data/data.tar.gz" in {one.what for one in about.missing}


def test_whoever_writes_meanwhile_is_named(bench: Bench, volumes: FakeVolumes) -> None:
    done = created(bench, volumes, VolumesAsked(everything=True), dry_run=True)
    told = "\n".join(done.planned)
    assert "cp1: the data of team/data, 4 entries, 0 MB, as a crash would leave it" in told
    assert "team/busy: pods use it and may write meanwhile: train-0, web-x" in told
    assert "not in it, because they are not on the export: team/deep, team/filer, team/loc" in told
    assert volumes.asked == []


def test_all_volumes_where_none_can_be_saved_is_no_success(
    bench: Bench, volumes: FakeVolumes
) -> None:
    volumes.listed = CLAIMS[2:]
    with pytest.raises(PreflightFailed, match="no claim on it; elsewhere are team/deep, team/fil"):
        created(bench, volumes, VolumesAsked(everything=True))
    assert bench.names() == []


# What was asked for, the section nfs, and the words of the refusal.
OWN = Nfs(server="198.18.7.11", path="/srv/nfs")
REFUSED: dict[str, tuple[str, Nfs | None, str]] = {
    "another NFS server": ("team/filer", OWN, r"on 198\.18\.7\.200:/export/team, expected a fold"),
    "a path of a node": ("team/local", OWN, "on /mnt/disk1"),
    "deeper in the export": ("team/deep", OWN, "on 198.18.7.11:/srv/nfs/a/b"),
    "no such claim": ("team/none", OWN, "no claim of that name"),
    "no name of a claim": ("../x", OWN, "expected NAMESPACE/CLAIM"),
    "the site's own filer": ("team/data", Nfs(server="198.18.7.200", path="/export"), "expected"),
    "a site without NFS": ("team/data", None, "expected a folder of the NFS export that a node"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_elsewhere_is_refused_by_name(case: str) -> None:
    name, nfs, words = REFUSED[case]
    (refusal,) = choose(site(nfs=nfs), CLAIMS, [name]).refusals
    assert refusal.node == name
    assert re.search(words, refusal.sentence())
    assert refusal.hint


def test_all_volumes_of_a_site_without_an_export_are_refused() -> None:
    (refusal,) = choose(site(nfs=None), CLAIMS, [], everything=True).refusals
    assert refusal.node == "--volumes"


@pytest.mark.parametrize("where", ["node", "place", "folder"])
def test_what_has_no_room_or_no_folder_is_refused_before_any_change(
    where: str, bench: Bench, volumes: FakeVolumes
) -> None:
    asked, words = ONE, "MB free for archives below /var/lib/appliance"
    if where == "node":
        volumes.free_bytes = 1000
    elif where == "place":
        asked, words = replace(ONE, free_bytes=5), "MB free in the place for backups"
    else:
        volumes.measures["team/data"] = Measured(fault="No such file or directory")
        words = "its folder team-data-pvc-1: No such file or directory"
    with pytest.raises(PreflightFailed, match=words):
        created(bench, volumes, asked)
    assert bench.names() == []
    assert volumes.asked == []


def test_the_largest_volumes_are_named_where_there_is_no_room(
    bench: Bench, volumes: FakeVolumes
) -> None:
    """One of them may hold a file whose holes are too many to be kept as holes."""
    volumes.free_bytes = 10**9
    volumes.measures["team/busy"] = Measured(4, 256 * 10**9)
    with pytest.raises(PreflightFailed, match=r"the largest: team/busy \(256256 MB\), team/data"):
        created(bench, volumes, VolumesAsked(everything=True))


def test_an_archive_is_compared_with_what_was_saved(
    given: tuple[VolumeRecord, bytes, bytes],
) -> None:
    record, text, content = given
    assert read_record(text, RECORD) == record
    check_archive(io.BytesIO(content), record)
    for change in ({"digest": "0" * 64}, {"bytes": 3}, {"counts": {"file": 1}}):
        with pytest.raises(NotHealthy, match="team/data: its archive"):
            check_archive(io.BytesIO(content), replace(record, **change))
    with pytest.raises(NotHealthy, match="cannot be read"):
        check_archive(io.BytesIO(content[:-40]), record)
    changed = gzip.compress(gzip.decompress(content).replace(b"first", b"other"))
    with pytest.raises(NotHealthy, match="does not hold what was saved"):
        check_archive(io.BytesIO(changed), record)


def test_an_archive_of_everything_is_summed_as_on_the_node(tmp_path: Path) -> None:
    top = tmp_path / "volume"
    (top / "deep").mkdir(parents=True)
    (top / "link").symlink_to("nowhere")
    with (top / "holes").open("wb") as file:
        file.seek(5 << 20)
        file.write(b"x" * 70_000)
        file.truncate(9 << 20)
    content, _, listing = packed(top)
    told: dict[str, Any] = {
        "claim": "a/b",
        "volume": "v",
        "uid": "u",
        "folder": "f",
        "archive": "volumes/a/b/x",
    }
    check_archive(io.BytesIO(gzip.compress(content)), VolumeRecord(**told, **listing.told()))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"claim": "team/other"}, RECORD),
        ({"archive": "etcd/snapshot.db"}, RECORD),
        ({"digest": "x"}, RECORD),
        ({"bytes": -1}, RECORD),
        ({"claim": "../.."}, "volumes/../../volume.json"),
        ({}, "volumes/team/other/volume.json"),
    ],
)
def test_a_record_of_another_hand_is_not_believed(
    change: dict[str, Any], part: str, given: tuple[VolumeRecord, bytes, bytes]
) -> None:
    with pytest.raises(Unreadable):
        read_record(plain(given[0], **change), part)
    assert is_claim("team/data")
