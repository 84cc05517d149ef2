"""A restore ends whatever kills it, records what it is made of, and refuses before any change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import NodeUnreachable, PreflightFailed, Refused, StepNotVerified
from appliance.model.backup.restore import RestoreOptions
from appliance.model.node.lost import Workloads
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.journal import Record
from appliance.model.state.observed import Fault
from appliance.model.state.upgrade import UpgradeMark
from appliance.workflows.cluster.restore import (
    PATIENCE_SECONDS,
    RestoreRequest,
    RestoreResult,
    RestoreSources,
    cluster_restore,
    restored_backups,
)
from appliance.workflows.cluster.upgrading.revive import keep_record
from appliance.workflows.session.session import Session
from tests import samples
from tests.fakes import FakeClock, FakeJournal, run
from tests.sessions import fake_session
from tests.unit.restore.rack import MANIFEST, RELEASES, FakeBackup, FakeRestoring, LostRack, view


def lost(masters: int = 3) -> LostRack:
    return LostRack(samples.desired(samples.site(masters, 1)))


def restore(
    rack: LostRack,
    journal: FakeJournal | None = None,
    options: RestoreOptions | None = None,
    *,
    answer: bool = True,
    dry_run: bool = False,
    clock: FakeClock | None = None,
) -> RestoreResult:
    options = options or RestoreOptions()
    request = RestoreRequest(rack.desired.site, run("cluster restore"), options, dry_run=dry_run)
    backup = None if options.survivor else FakeBackup()
    session: Session = fake_session(
        rack, journal, read_workloads=rack.workloads, **({"clock": clock} if clock else {})
    )
    return cluster_restore(
        request, session, RestoreSources(FakeRestoring(rack), backup), lambda _plan: answer
    )


@pytest.mark.parametrize("masters", [1, 3])
def test_a_lost_cluster_comes_back_and_the_journal_has_its_recovery_point(masters: int) -> None:
    rack, journal = lost(masters), FakeJournal()
    done = restore(rack, journal)
    assert done.done
    assert done.compared
    names = [f"cp{number}" for number in range(1, masters + 1)]
    assert rack.done == [
        *(f"bring {name}" for name in names),
        *(f"{act} {name}" for act in ("stop", "place", "start") for name in names),
        *(f"watchers {name}" for name in (*names, "w1")),
        *(f"end {name}" for name in names),
    ]
    assert [one.outcome for one in journal.records] == ["verified"] * 4
    assert "recovery point 2026-03-01T02:00:00+00:00" in journal.records[1].why[0]
    assert restored_backups(FakeJournal()) == frozenset()
    assert restored_backups(journal) == {FakeBackup.sha256}, "its databases could not come back"


class _Killed(BaseException):
    pass


def _steps(masters: int) -> int:
    rack = lost(masters)
    restore(rack)
    return len(rack.done)


@pytest.mark.parametrize("at", range(_steps(3)))
def test_the_same_command_ends_a_restore_that_was_killed_anywhere(at: int) -> None:
    rack, journal = lost(), FakeJournal()
    left = [at]

    def happens(what: str) -> None:
        if left[0] == 0:
            raise _Killed(what)
        left[0] -= 1

    rack.happens = happens
    with pytest.raises(_Killed):
        restore(rack, journal)
    if any(one.startswith("end ") for one in rack.done):
        assert restored_backups(journal), "nothing would write it any more"
    rack.happens = lambda _what: None
    done = restore(rack, journal)
    assert done.done
    assert done.compared
    assert restored_backups(journal) == {FakeBackup.sha256}
    acts = [one for one in rack.done if not one.startswith("watchers")]
    assert sorted(acts) == sorted(set(acts)), "an act was carried out twice"


def test_a_node_of_the_snapshot_is_ready_once_its_kubelet_was_heard_again() -> None:
    """What etcd brought back says that every node is Ready, also one that is dead since."""
    rack, journal = lost(), FakeJournal()
    rack.deaf = {"w1"}
    clock = FakeClock()
    began = clock.monotonic()
    done = restore(rack, journal, clock=clock)
    assert done.done
    assert done.gone == ("w1",)
    assert clock.monotonic() - began >= PATIENCE_SECONDS


def test_a_control_plane_whose_kubelet_stays_silent_is_no_success() -> None:
    rack = lost(1)
    rack.deaf = {"cp1"}
    with pytest.raises(StepNotVerified, match="not heard of since: cp1"):
        restore(rack)
    assert not any(one.startswith("end ") for one in rack.done)
    rack.deaf = set()
    assert restore(rack).done


def test_a_kubelet_that_an_earlier_run_started_is_known_by_its_lease() -> None:
    """Its conditions come again after five minutes; its lease is renewed every ten seconds."""
    rack, clock = lost(), FakeClock()
    rack.quiet = {"cp1", "cp2", "cp3", "w1"}
    began = clock.monotonic()
    done = restore(rack, clock=clock)
    assert done.done
    assert done.gone == ()
    assert clock.monotonic() - began < 60


@pytest.mark.parametrize("renewals", [0, 1, 2])
def test_a_kubelet_that_ends_after_a_renewal_is_no_success(renewals: int) -> None:
    rack = lost(1)
    rack.quiet, rack.renewals = {"cp1"}, renewals
    with pytest.raises(StepNotVerified, match="not heard of since: cp1"):
        restore(rack)
    assert not any(one.startswith("end ") for one in rack.done)


def test_leases_that_cannot_be_read_leave_the_wait_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent() -> Workloads:
        raise NodeUnreachable("no API server answers")

    rack = lost(1)
    rack.quiet = {"cp1"}
    monkeypatch.setattr(rack, "workloads", silent)
    with pytest.raises(StepNotVerified, match="not heard of since: cp1"):
        restore(rack)


def test_a_living_cluster_is_refused_before_any_change() -> None:
    rack = lost()
    rack.views["cp2"] = view("cp2", etcd="cluster")
    with pytest.raises(PreflightFailed) as raised:
        restore(rack)
    assert raised.value.exit_code == 3
    assert "a living cluster is not overwritten" in raised.value.message
    assert rack.done == []


def test_a_cluster_that_came_back_while_the_operator_thought_is_refused() -> None:
    rack = lost()
    request = RestoreRequest(rack.desired.site, run("cluster restore"))

    def confirm(_plan: object) -> bool:
        rack.views["cp1"] = view("cp1", etcd="cluster")
        return True

    ports = RestoreSources(FakeRestoring(rack), FakeBackup())
    with pytest.raises(PreflightFailed):
        cluster_restore(request, fake_session(rack), ports, confirm)
    assert rack.done == []


def test_without_a_yes_nothing_is_changed() -> None:
    rack = lost()
    with pytest.raises(Refused):
        restore(rack, answer=False)
    assert rack.done == []


def test_a_dry_run_shows_the_plan_and_what_forbids_it() -> None:
    rack = lost()
    rack.views["cp2"] = "cp2: no answer"
    found = restore(rack, dry_run=True)
    assert [one.node for one in found.plan.refusals] == ["cp2"]
    assert rack.done == []


def test_a_file_that_the_journal_does_not_know_is_told_before_the_question() -> None:
    """Recipients are public: whoever has one can make a file that the operator's key opens."""
    rack, journal = lost(), FakeJournal()
    found = restore(rack, journal, dry_run=True).plan
    assert any("the journal of this site does not know the file" in line for line in found.lines())
    told = f"x: 5 bytes, sha256 {FakeBackup.sha256}, to /mnt"
    who = run("cluster backup create")
    record = Record(who.id, 1, who.command, "backup kept", (), (told,), "", 1.0, "verified", "op")
    journal.append(record)
    assert restore(rack, journal, dry_run=True).plan.known


def test_a_survivor_is_restored_alone_and_the_others_rejoin() -> None:
    rack = lost()
    rack.views.update(cp1="cp1: burnt", cp3="cp3: burnt")
    rack.faults = {name: Fault(name, f"{name}: burnt", "") for name in ("cp1", "cp3")}
    done = restore(rack, options=RestoreOptions(survivor="cp2"))
    assert done.plan.rejoin == ("cp1", "cp3")
    assert rack.done[0] == "stop cp2"
    assert done.away == ()
    assert not done.compared


def test_a_worker_that_does_not_answer_is_named_and_waits_for_nobody() -> None:
    rack = lost()
    rack.faults = {"w1": Fault("w1", "w1: no answer", "")}
    done = restore(rack)
    assert done.away == ("w1",)
    assert "watchers w1" not in rack.done


def test_a_cluster_that_does_not_answer_afterwards_is_no_success() -> None:
    rack = lost()
    rack.before = NoCluster()  # type: ignore[assignment]
    with pytest.raises(StepNotVerified, match="no API server answers"):
        restore(rack)
    assert not any(one.startswith("end") for one in rack.done)


def test_a_worker_that_stays_away_is_named_and_the_restore_ends() -> None:
    """Its snapshot in plain would lie on the nodes until somebody mends the worker."""
    rack = lost()
    nodes = dict(rack.before.nodes)
    nodes["w1"] = replace(nodes["w1"], ready=False)
    rack.before = replace(rack.before, nodes=nodes)
    done = restore(rack)
    assert (done.done, done.gone) == (True, ("w1",))
    assert [one for one in rack.done if one.startswith("end")] == ["end cp1", "end cp2", "end cp3"]


def test_a_node_that_is_not_ready_afterwards_is_named() -> None:
    rack = lost()
    nodes = dict(rack.before.nodes)
    nodes["cp3"] = replace(nodes["cp3"], ready=False)
    rack.before = replace(rack.before, nodes=nodes)
    with pytest.raises(StepNotVerified, match="not Ready: cp3"):
        restore(rack)


@pytest.mark.parametrize("moved", [False, True])
def test_a_backup_from_before_an_upgrade_is_judged_by_the_note_of_the_upgrade(moved: bool) -> None:
    rack = lost()
    version = {"cp1": "1.23.17"} if moved else {}
    rack.views = {n: view(n, kubernetes=version.get(n, "1.23.5")) for n in rack.views}
    site, newer = rack.desired.site, "k8s-1.23.17-r1"
    settings = site.settings.model_copy(update={"appliance_release": newer})
    request = RestoreRequest(replace(site, settings=settings), run("cluster restore"))
    session: Session = fake_session(rack)
    mark = UpgradeMark(newer, "2026-03-01T03:00:00+00:00", "ada", before="k8s-1.23.5-r1")
    keep_record(session, mark)
    ports = RestoreSources(FakeRestoring(rack), FakeBackup(), lambda: RELEASES)
    if moved:
        with pytest.raises(PreflightFailed, match=r"cp1: .*Kubernetes 1\.23\.17"):
            cluster_restore(request, session, ports, lambda _plan: True)
        assert rack.done == []
    else:
        assert cluster_restore(request, session, ports, lambda _plan: True).done


@pytest.mark.parametrize("runs", ["1.24.17", "1.23.5"])
def test_a_backup_that_names_the_release_of_before_an_upgrade_fits_by_what_ran(runs: str) -> None:
    """The timer of a node writes the release of its last install until somebody runs it again."""
    rack = lost()
    rack.views = {n: view(n, kubernetes=runs) for n in rack.views}
    settings = rack.desired.site.settings.model_copy(update={"appliance_release": "k8s-1.24.17-r1"})
    site = replace(rack.desired.site, settings=settings)
    backup = FakeBackup(replace(MANIFEST, about=replace(MANIFEST.about, kubernetes="1.24.17")))
    request = RestoreRequest(site, run("cluster restore"))
    ports = RestoreSources(FakeRestoring(rack), backup, lambda: RELEASES)
    session: Session = fake_session(rack)
    if runs == "1.24.17":
        done = cluster_restore(request, session, ports, lambda _plan: True)
        assert any("it fits by Kubernetes 1.24.17" in line for line in done.plan.lines())
    else:
        with pytest.raises(PreflightFailed, match=r"a backup of Kubernetes 1\.24\.17"):
            cluster_restore(request, session, ports, lambda _plan: True)
        assert rack.done == []


def test_a_node_that_is_left_out_says_nothing_of_the_release() -> None:
    """It was wiped, and rejoins: the versions of those that are restored decide."""
    rack = lost()
    rack.views = {n: view(n, kubernetes="1.24.17") for n in rack.views}
    rack.views["cp3"] = view("cp3", manifests=(), etcd_data=False)
    settings = rack.desired.site.settings.model_copy(update={"appliance_release": "k8s-1.24.17-r1"})
    site = replace(rack.desired.site, settings=settings)
    backup = FakeBackup(replace(MANIFEST, about=replace(MANIFEST.about, kubernetes="1.24.17")))
    request = RestoreRequest(
        site, run("cluster restore"), RestoreOptions(without=("cp3",)), dry_run=True
    )
    ports = RestoreSources(FakeRestoring(rack), backup, lambda: RELEASES)
    done = cluster_restore(request, fake_session(rack), ports, lambda _plan: True)
    assert done.plan.refusals == ()
