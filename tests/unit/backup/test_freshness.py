"""How fresh the newest backup is, by what machines know; and what asks for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import NodeUnreachable, PreflightFailed
from appliance.model.backup.freshness import NEWEST, Newest, newest_of, staleness
from appliance.model.backup.names import backup_id
from appliance.model.backup.record import Missing, sidecar_text
from appliance.model.checks.health.backups import backup
from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.site.recovery.backup_settings import Backup
from appliance.model.state.findings import Finding
from appliance.model.state.observed import Observed
from appliance.workflows.cluster.backups.freshness import newest_backup, require_fresh_backup
from tests import samples
from tests.fake_documents import FakeDocuments
from tests.fakes import FakeArchive, FakeClock, FakeRack
from tests.sessions import fake_session
from tests.unit.backup.samples import sidecar

KEYS = tuple(f"age1{letter * 58}" for letter in "qp")
WANTED = Backup(recipients=KEYS, to="/mnt/backups", fresh_hours=26)
NOW = 1_700_000_000.0


def text(hours: float, site: str = "rack", **more: Any) -> str:
    more = {"kinds": ("etcd", "runai"), **more}
    return sidecar_text(sidecar(backup_id(site, NOW - hours * 3600), site, **more))


def with_old_backup(bench: Any) -> None:
    """Give the site of a bench a newest backup that is not fresh."""
    site = bench.desired.site
    settings = site.settings.model_copy(update={"backup": WANTED})
    bench.desired = replace(bench.desired, site=replace(site, settings=settings))
    bench.archive.documents[NEWEST] = text(27)


def told_old(bench: Any) -> bool:
    """Whether it was said that the newest backup is old."""
    return any("is 27 hours old" in str(event) for event in bench.observer.said)


CASES: dict[str, tuple[str | None, str]] = {
    "none": (None, "no backup of this site is known"),
    "fresh": (text(25), ""),
    "old": (text(27), "is 27 hours old"),
    "of another site": (text(1, "other"), "no backup of this site is known"),
    "from the future": (text(-2), "still to come"),
    "a clock that runs ahead": (text(-0.5), ""),
    "hostile": ('{"format": 1}', "cannot be read"),
    "empty": ("", "cannot be read"),
    "later": (json.dumps({**json.loads(text(1)), "format": 9}), "cannot be read"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_old_backup_is_told_from_a_fresh_one(case: str) -> None:
    written, why = CASES[case]
    found = staleness(newest_of(written), "rack", WANTED, NOW)
    assert (why in found, bool(found)) == (True, bool(why))


LACKING: dict[str, tuple[tuple[str, ...], tuple[Missing, ...], str]] = {
    "has them": (("etcd", "runai"), (), ""),
    "none were asked for": (("etcd",), (), "lacks Run:ai's databases"),
    "no answer": (("etcd",), (Missing("cp2", "runai", "no answer"),), "cp2: no answer"),
    "one is not dumped": (
        ("etcd", "runai"),
        (Missing("cp1", "runai/databases", "pg_dump: exit 1"),),
        "lacks Run:ai's databases: cp1: pg_dump",
    ),
    "one broke off": (
        ("etcd", "runai"),
        (Missing("cp1", "runai/databases/backend.sql", "it broke off"),),
        "lacks Run:ai's databases: cp1: it broke off",
    ),
    "its roles are not": (
        ("etcd", "runai"),
        (Missing("cp1", "runai/globals.sql", "denied"),),
        "lacks Run:ai's databases: cp1: denied",
    ),
    "helm's values are not": (
        ("etcd", "runai"),
        (Missing("cp1", "runai/values/runai-cluster.yml", "no values"),),
        "",
    ),
}


@pytest.mark.parametrize("case", LACKING)
def test_a_backup_without_the_databases_is_not_fresh_where_they_count(case: str) -> None:
    kinds, missing, why = LACKING[case]
    newest = newest_of(text(1, kinds=kinds, missing=missing))
    found = staleness(newest, "rack", WANTED, NOW, databases=True)
    assert (why in found, bool(found)) == (True, bool(why))
    assert staleness(newest, "rack", WANTED, NOW) == ""


def _desired(wanted: Backup | None = WANTED) -> Any:
    site = samples.site(1, 1)
    settings = site.settings.model_copy(update={"backup": wanted})
    return samples.desired(replace(site, settings=settings))


def _session(archive: FakeArchive, documents: FakeDocuments) -> Any:
    return fake_session(
        FakeRack(_desired()), archive=archive, documents=documents, clock=FakeClock()
    )


def test_the_newer_of_both_machines_counts() -> None:
    archive, documents, site = FakeArchive(), FakeDocuments(), _desired().site
    session = _session(archive, documents)
    with pytest.raises(PreflightFailed, match="no backup of this site is known") as caught:
        require_fresh_backup(site, session, "an upgrade")
    assert "--without-backup" in str(caught.value.hint)
    archive.documents[NEWEST] = text(100)
    with pytest.raises(PreflightFailed, match="100 hours old"):
        require_fresh_backup(site, session, "an upgrade")
    documents.texts[NEWEST] = text(2)
    require_fresh_backup(site, session, "an upgrade")


def test_what_does_not_answer_is_no_fresh_backup() -> None:
    archive, documents, site = FakeArchive(), FakeDocuments(), _desired().site
    archive.away = NodeUnreachable("no control-plane node answers")
    with pytest.raises(PreflightFailed, match="no control-plane node answers"):
        require_fresh_backup(site, _session(archive, documents), "an upgrade")
    documents.texts[NEWEST] = text(2)
    require_fresh_backup(site, _session(archive, documents), "an upgrade")


def test_a_site_without_the_section_is_asked_for_nothing() -> None:
    archive = FakeArchive()
    archive.away = NodeUnreachable("no control-plane node answers")
    session, site = _session(archive, FakeDocuments()), _desired(None).site
    assert newest_backup(site, session) is None
    require_fresh_backup(site, session, "an upgrade")


def _findings(newest: Newest, wanted: Backup = WANTED) -> list[str]:
    desired = _desired(wanted)
    inputs = HealthInputs(desired, Observed({}, None), clock=NOW, backup=newest)  # type: ignore[arg-type]
    return [one.sentence() for one in backup(inputs) if isinstance(one, Finding)]


def test_health_warns_of_an_old_one_and_of_a_single_key() -> None:
    assert _findings(newest_of(text(1))) == []
    (old,) = _findings(newest_of(text(50)))
    assert "50 hours old" in old
    (single,) = _findings(newest_of(text(1)), WANTED.model_copy(update={"recipients": KEYS[:1]}))
    assert "only one key" in single


def test_health_warns_of_what_nodes_did_not_give() -> None:
    known = Missing("this machine", "site/link", "a link to a folder, which is not followed")
    assert _findings(newest_of(text(1, missing=(known,)))) == []
    away = Missing("cp3", "runai", "there is no answer")
    (lacks,) = _findings(newest_of(text(1, missing=(known, away, away))))
    assert "the newest backup lacks runai of cp3: there is no answer, and 1 more" in lacks
