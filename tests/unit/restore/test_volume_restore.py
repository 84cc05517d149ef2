"""Data of volumes comes back from a backup, whatever kills the run; refusals change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ClusterError, NotHealthy, PreflightFailed, Refused
from appliance.model.backup.volumes.record import User
from appliance.workflows.cluster.restoring.volumes import (
    SETTLE_SECONDS,
    VolumeRequest,
    VolumeRestoreSources,
    VolumeResult,
    restore_volumes,
)
from tests import samples
from tests.fakes import FakeClock, FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.backup.volume_samples import DATA, USED, site
from tests.unit.restore.database_rack import journal_line
from tests.unit.restore.volume_rack import IDLE, FakeBackup, FakeVolumes

ORDER = ["load team/data", "load team/busy", "swap", "end"]


def restore(
    volumes: FakeVolumes,
    backup: FakeBackup | None = None,
    *names: str,
    journal: FakeJournal | None = None,
    clock: FakeClock | None = None,
    answer: bool = True,
    dry_run: bool = False,
) -> VolumeResult:
    journal = FakeJournal() if journal is None else journal
    if not journal.records:
        journal.records.append(journal_line())
    request = VolumeRequest(site(), run("cluster restore"), names, dry_run=dry_run)
    rack = FakeRack(samples.desired(site()))
    session = fake_session(rack, journal, clock=clock or FakeClock())
    ports = VolumeRestoreSources(volumes, backup or FakeBackup())
    return restore_volumes(request, session, ports, lambda _plan: answer)


def test_volumes_come_back_and_what_was_there_is_named() -> None:
    volumes, journal, clock = FakeVolumes(), FakeJournal(), FakeClock()
    began = clock.time
    done = restore(volumes, journal=journal, clock=clock)
    assert done.done
    assert volumes.done == ORDER
    assert done.kept == {"team/busy": "team/busy.before", "team/data": "team/data.before"}
    assert clock.time - began >= SETTLE_SECONDS, "nodes may know the old folders"
    assert [one.outcome for one in journal.records[1:]] == ["verified"] * 2
    assert "recovery point 2026-03-01T02:00:00+00:00" in journal.records[1].why[0]


def test_one_volume_alone_is_restored_where_it_is_named() -> None:
    volumes = FakeVolumes(DATA, USED)
    restore(volumes, None, "team/data")
    assert volumes.done == ["load team/data", "swap", "end"]


class _Killed(BaseException):
    pass


def _moments() -> list[str]:
    volumes = FakeVolumes()
    seen: list[str] = []
    volumes.happens = seen.append
    restore(volumes)
    return seen


@pytest.mark.parametrize("moment", _moments())
def test_the_same_command_ends_a_restore_that_was_killed_anywhere(moment: str) -> None:
    volumes, clock = FakeVolumes(), FakeClock()

    def happens(what: str) -> None:
        if what == moment:
            raise _Killed(what)

    volumes.happens = happens
    with pytest.raises(_Killed):
        restore(volumes, clock=clock)
    volumes.happens = lambda _what: None
    clock.time += 100
    done = restore(volumes, clock=clock)
    assert done.done
    once = [one for one in volumes.done if one != "end"]
    assert sorted(once) == sorted(ORDER[:-1]), "an act was carried out twice"


def test_a_dry_run_tells_what_becomes_of_what_is_there_and_changes_nothing() -> None:
    volumes = FakeVolumes(replace(DATA, uid="another"), IDLE)
    plan = restore(volumes, dry_run=True).plan
    assert volumes.done == []
    told = "\n".join(plan.lines())
    assert "restores the data of team/data, team/busy from the backup" in told
    assert "team/data: 2 files, 2000 bytes; the claim was made again since" in told
    assert "the present folders stay in the export" in told
    assert "kept by earlier restores, and never removed: old.before-20250101T000000Z" in told


def test_without_a_yes_nothing_is_changed() -> None:
    volumes = FakeVolumes()
    with pytest.raises(Refused):
        restore(volumes, answer=False)
    assert volumes.done == []


# What the backup has, what the cluster has, the claims that were named, words of the refusal.
REFUSED: dict[str, tuple[dict[str, Any], FakeVolumes, tuple[str, ...], str]] = {
    "another site": ({"site": "elsewhere"}, FakeVolumes(), (), "a backup of the site elsewhere"),
    "a later tool": ({"tool_version": "9.9.9"}, FakeVolumes(), (), "written by version 9.9.9"),
    "a claim that is not in it": ({}, FakeVolumes(), ("team/other",), "no data of it in the bac"),
    "a claim that is gone": ({}, FakeVolumes(DATA), (), "team/busy: .*no claim of that name"),
    "a volume that is elsewhere now": (
        {}, FakeVolumes(replace(DATA, server="198.18.7.200"), IDLE), (), "on 198.18.7.200:"
    ),
    "two claims of one folder": (
        {}, FakeVolumes(DATA, replace(IDLE, path=DATA.path)), (), "which team/data has, too"
    ),
    "an archive that broke off": (
        {"without": ["volumes/team/data/data.tar.gz"]}, FakeVolumes(), (), "no archive in the bac"
    ),
    "no volume at all": (
        {"without": [f"volumes/team/{one}/{name}" for one in ("data", "busy")
                     for name in ("volume.json", "data.tar.gz")]},
        FakeVolumes(), (), "no data of volumes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_before_any_change(case: str) -> None:
    saved, volumes, names, words = REFUSED[case]
    with pytest.raises(PreflightFailed, match=words) as raised:
        restore(volumes, FakeBackup(**saved), *names)
    assert raised.value.exit_code == 3
    assert volumes.done == []


def test_pods_that_use_a_claim_are_named_with_what_stops_them() -> None:
    busy = replace(USED, users=(*USED.users, User("job-x", "job/tune"), User("p", "pod/p")))
    volumes = FakeVolumes(DATA, busy)
    with pytest.raises(PreflightFailed, match=r"team/busy: .*train-0, web-x, job-x") as raised:
        restore(volumes)
    assert volumes.done == []
    for words in (
        "kubectl --namespace=team scale statefulset/train --replicas=0",
        "kubectl --namespace=team scale deployment/web --replicas=0",
        "kubectl --namespace=team delete job/tune",
        "kubectl --namespace=team delete pod/p",
    ):
        assert words in (raised.value.hint or "")


def test_a_pod_that_began_meanwhile_keeps_its_folder() -> None:
    volumes = FakeVolumes()

    def happens(what: str) -> None:
        if what == "after load team/busy":
            volumes.listed = [DATA, USED]

    volumes.happens = happens
    with pytest.raises(ClusterError, match="pods use it again: train-0"):
        restore(volumes)
    assert "swap" not in volumes.done
    volumes.happens, volumes.listed = lambda _what: None, [DATA, IDLE]
    assert restore(volumes).done
    assert volumes.done.count("load team/busy") == 1


@pytest.mark.parametrize("again", [True, False])
def test_a_claim_that_was_made_again_meanwhile_is_not_told_as_restored(again: bool) -> None:
    volumes = FakeVolumes()
    other = replace(IDLE, uid="u9", path="/srv/nfs/team-busy-pvc-9")

    def happens(what: str) -> None:
        if what == "after load team/busy":
            volumes.listed = [DATA, other] if again else [DATA]

    volumes.happens = happens
    with pytest.raises(ClusterError, match="team/busy is not in the folder team-busy-pvc-2 any"):
        restore(volumes)
    assert "swap" not in volumes.done


def test_a_pod_that_began_within_the_minute_is_named_with_what_restarts_it() -> None:
    volumes = FakeVolumes()

    def happens(what: str) -> None:
        if what == "after swap":
            volumes.listed = [DATA, USED]

    volumes.happens = happens
    done = restore(volumes)
    assert done.done
    (told,) = done.early
    assert told.startswith("team/busy: pods began before the minute was over, and may have the")
    assert "kubectl --namespace=team scale statefulset/train --replicas=0" in told
    assert restore(FakeVolumes()).early == ()


def test_pods_that_cannot_be_seen_at_the_end_are_told() -> None:
    volumes = FakeVolumes()
    plain = volumes.claims

    def gone() -> Any:
        if "end" in volumes.done:
            raise ClusterError("the API is silent")
        return plain()

    volumes.claims = gone  # type: ignore[method-assign]
    (told,) = restore(volumes).early
    assert "the API is silent" in told


def test_an_export_without_space_is_refused() -> None:
    volumes = FakeVolumes()
    volumes.free_bytes = 1000
    with pytest.raises(PreflightFailed, match="the present folders stay beside"):
        restore(volumes)
    assert volumes.done == []


def test_a_record_that_cannot_be_read_is_no_record() -> None:
    volumes = FakeVolumes()
    broken = {"volumes/team/data/volume.json": b"{}"}
    with pytest.raises(NotHealthy, match=r"volume\.json cannot be read"):
        restore(volumes, FakeBackup(content=broken))
    assert volumes.done == []


def test_a_file_that_the_journal_does_not_know_is_told() -> None:
    volumes, backup = FakeVolumes(), FakeBackup()
    backup.sha256 = "77" * 32
    plan = restore(volumes, backup, dry_run=True).plan
    assert any("does not know the file" in line for line in plan.lines())
