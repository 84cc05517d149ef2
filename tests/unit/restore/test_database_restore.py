"""Run:ai's databases come back from a backup, whatever kills the run; refusals change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ClusterError, NotHealthy, PreflightFailed, Refused, StepNotVerified
from appliance.model.backup.restoring.database_view import Begun, SeenDatabase, Version
from appliance.workflows.cluster.restoring.database import (
    DatabaseRequest,
    DatabaseResult,
    DatabaseSources,
    restore_databases,
)
from tests import samples
from tests.fakes import FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.restore.database_rack import (
    BACKUP,
    FILE,
    NOW,
    FakeBackup,
    FakeDatabases,
    journal_line,
    part_of,
    site,
)

ORDER = ["save", "load backend", "load keycloak", "swap", "check", "end"]


def restore(
    databases: FakeDatabases,
    backup: FakeBackup | None = None,
    *,
    journal: FakeJournal | None = None,
    answer: bool = True,
    dry_run: bool = False,
) -> DatabaseResult:
    journal = FakeJournal() if journal is None else journal
    if not journal.records:
        journal.records.append(journal_line())
    request = DatabaseRequest(site(), run("cluster restore"), dry_run=dry_run)
    session = fake_session(FakeRack(samples.desired(site())), journal)
    ports = DatabaseSources(databases, backup or FakeBackup())
    return restore_databases(request, session, ports, lambda _plan: answer)


def test_the_databases_come_back_and_the_journal_has_the_recovery_point() -> None:
    databases, journal = FakeDatabases(), FakeJournal()
    done = restore(databases, journal=journal)
    assert done.done
    assert done.connection.said == "connected"
    assert databases.done == ORDER
    assert done.kept.old["backend"] == "appliance_before_backend"
    records = journal.records[1:]
    assert [one.outcome for one in records] == ["verified"] * 4
    assert "recovery point 2026-03-01T02:00:00+00:00" in records[0].why[0]


class _Killed(BaseException):
    pass


def _moments() -> list[str]:
    databases = FakeDatabases()
    seen: list[str] = []
    databases.happens = seen.append
    restore(databases)
    return seen


@pytest.mark.parametrize("moment", _moments())
def test_the_same_command_ends_a_restore_that_was_killed_anywhere(moment: str) -> None:
    databases = FakeDatabases()

    def happens(what: str) -> None:
        if what == moment:
            raise _Killed(what)

    databases.happens = happens
    with pytest.raises(_Killed):
        restore(databases)
    databases.happens = lambda _what: None
    done = restore(databases)
    assert done.done
    assert not databases.stopped
    once = [one for one in databases.done if one not in ("check", "end")]
    assert sorted(once) == sorted(ORDER[:4]), "an act was carried out twice"


def test_a_dry_run_tells_what_is_lost_and_changes_nothing() -> None:
    databases = FakeDatabases()
    plan = restore(databases, dry_run=True).plan
    assert databases.done == []
    (backend, keycloak) = plan.databases
    assert backend.lost == {"jobs": 5, "new": 1}
    assert keycloak.lost == {}
    told = "\n".join(plan.lines())
    assert "backend: 48 rows now, 43 in the backup; at least 6 rows are lost: jobs 5, new 1" in told
    assert "stops 2 workloads of runai-backend: backend, cleaner" in told
    assert "not restored, because nothing of Run:ai is in them: postgres" in told


def test_without_a_yes_nothing_is_changed() -> None:
    databases = FakeDatabases()
    with pytest.raises(Refused):
        restore(databases, answer=False)
    assert databases.done == []


def _counts(name: str, **more: Any) -> dict[str, Any]:
    return {"counts": {name: {"part": part_of(name), "rows": {"t": 1}, **more}}}


# What the node has, what the backup has, and the words of the refusal.
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no database server": (
        {"fault": "the pod runai-backend-postgresql-0 is not Ready"}, {},
        "is not Ready",
    ),
    "another version of Run:ai": (
        {"versions": {"runai-backend": Version("2.8.2", "deployed")}}, {},
        r"Run:ai 2\.8\.2.*2\.7\.14, as the backup has it",
    ),
    "an upgrade of Run:ai is under way": (
        {"versions": {"runai-backend": Version("2.7.14", "pending-upgrade")}}, {},
        "pending-upgrade",
    ),
    "another site": ({}, {"site": "elsewhere"}, "a backup of the site elsewhere"),
    "a later tool": ({}, {"tool_version": "9.9.9"}, "written by version 9.9.9"),
    "a database that is not there": (
        {"databases": {"keycloak": SeenDatabase(1, {})}}, {}, "no database backend on the server",
    ),
    "a strange name": ({}, _counts('x"; DROP DATABASE y; --'), "a database of the name"),
    "a dump that is not there": ({}, _counts("grafana"), "no dump of the database grafana"),
    "no dumps at all": ({}, {"without": ("runai/counts.json",)}, "no database of Run:ai"),
    "too little space": ({"free_bytes": 1 << 30}, {}, "MB free for dumps"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_before_any_change(case: str) -> None:
    there, saved, words = REFUSED[case]
    databases = FakeDatabases(**there)
    with pytest.raises(PreflightFailed, match=words) as raised:
        restore(databases, FakeBackup(**saved))
    assert raised.value.exit_code == 3
    assert databases.done == []


def test_a_file_that_the_journal_does_not_know_is_refused() -> None:
    """Its statements would run as the superuser, and whoever has the public keys can make one."""
    databases, backup = FakeDatabases(), FakeBackup()
    backup.sha256 = "77" * 32
    with pytest.raises(PreflightFailed, match="the journal of this site does not know"):
        restore(databases, backup)
    assert databases.done == []


@pytest.mark.parametrize(
    ("changes", "knows"),
    [
        ({}, True),
        ({"outcome": "failed: the disk is full"}, False),
        ({"step": "cluster restore: snapshot"}, False),
        ({"why": (f"the backup x: sha256 {'66' * 32}",)}, False),
    ],
)
def test_the_file_that_the_cluster_was_restored_from_is_known(
    changes: dict[str, Any], *, knows: bool
) -> None:
    """After a fire no journal has it; what it holds rules the cluster already."""
    journal = FakeJournal()
    told = f"the backup {BACKUP}: restored, sha256 {FILE}"
    line = replace(
        journal_line(), command="cluster restore", step="cluster restore: verify", why=(told,)
    )
    journal.records.append(replace(line, **changes))
    faults = restore(FakeDatabases(), journal=journal, dry_run=True).plan.refusals
    assert any("does not know" in one.seen for one in faults) is not knows


def test_a_backup_without_versions_is_restored_only_into_tables_of_the_same_form() -> None:
    databases = FakeDatabases()
    plan = restore(databases, FakeBackup(without=("runai/releases.json",)), dry_run=True).plan
    assert plan.same_form
    assert plan.refusals == ()


def test_databases_of_this_tool_in_a_backup_are_left_out() -> None:
    name = "appliance_restore_0123456789abcdef"
    plan = restore(FakeDatabases(), FakeBackup(**_counts(name)), dry_run=True).plan
    assert plan.names == ("backend", "keycloak")
    assert plan.left_out == (name, "postgres")


def test_an_interrupted_restore_of_another_backup_is_not_gone_on_with() -> None:
    databases = FakeDatabases()
    other = Begun("rack-20260101T000000Z.x", "11" * 32)
    databases.record, databases.swapped = other, {(other.key, "backend")}
    done = restore(databases)
    assert not done.plan.resumes
    assert databases.done == ORDER


def test_a_login_that_fails_is_no_success_and_the_same_command_tries_it_again() -> None:
    databases, journal = FakeDatabases(), FakeJournal()

    def refuses(what: str) -> None:
        if what == "before check":
            raise ClusterError("https://runai.test refuses the login of test@run.ai")

    databases.happens = refuses
    with pytest.raises(StepNotVerified, match="refuses the login"):
        restore(databases, journal=journal)
    databases.happens = lambda _what: None
    assert restore(databases, journal=journal).done
    assert databases.done == ORDER


def test_counts_that_cannot_be_read_are_no_backup_of_databases() -> None:
    backup = FakeBackup()
    backup.content["runai/counts.json"] = b'{"databases": {"backend": {"rows": -1}}}'
    with pytest.raises(NotHealthy, match="cannot be read"):
        restore(FakeDatabases(), backup)


def test_rows_that_came_while_the_operator_thought_are_no_other_plan() -> None:
    databases = FakeDatabases()
    request = DatabaseRequest(site(), run("cluster restore"))
    journal = FakeJournal()
    journal.records.append(journal_line())
    session = fake_session(FakeRack(samples.desired(site())), journal)

    def confirm(_plan: object) -> bool:
        databases.view.databases["backend"] = SeenDatabase(9, {**NOW["backend"], "jobs": 99})
        return True

    assert FakeBackup.sha256 == FILE
    ports = DatabaseSources(databases, FakeBackup())
    assert restore_databases(request, session, ports, confirm).done
