"""A site as version 0.1.0 left it: this version reads its files, its journal and its records.

``tests/data/site_of_0.1.0`` was written by version 0.1.0 on fakes: ``site init``, then an install,
maintenance and return of w1, and the removal of w2 by ada, and a maintenance by bob that failed.
``archive`` is what a control-plane node keeps, ``last`` the lock that bob released. The vault's
password was thrown away. These files are never written again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.journal import FileJournal
from appliance.adapters.site.files import load_site
from appliance.adapters.site.state import JOURNAL
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.control.later_tool import find_later
from appliance.model.control.lock import LockVerdict, NoVote, Vote, judge, read_holder, writers
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.journal import SCHEMA
from appliance.model.state.observed import PodView
from tests import samples
from tests.cli import question_rack, test_horizon, test_support_bundle
from tests.cli.faked_site import installed
from tests.cli.test_which_site import LOOKING
from tests.fakes import FakeArchive, FakeBundle, FakeClock, FakeEtcd, FakeRack
from tests.unit.life.rack import FakeDrain
from tests.unit.patch import bench as patches

WRITTEN = Path(__file__).parents[1] / "data/site_of_0.1.0"
RECORDS = sorted((WRITTEN / "archive/journal").glob("*.json"))
Capture = pytest.CaptureFixture[str]
# These read nothing but the site's files, and then a node or a program that no fake plays; or
# backups, of which no site of that version says anything.
OF_ANOTHER = {
    ("kubeconfig",), ("node", "logs"), ("node", "ssh"), ("runai", "csr"),
    ("runai", "access", "kubeconfig"), ("node", "power", "status"),
    ("hardware", "inspect"), ("hardware", "qualify"), ("hardware", "record"),
    ("hardware", "bios", "show"),
    ("cluster", "backup", "fetch"), ("cluster", "backup", "list"), ("cluster", "backup", "verify"),
}  # fmt: skip
READ = sorted(LOOKING.keys() - OF_ANOTHER)


def archived() -> Iterator[tuple[str, str]]:
    for path in sorted((WRITTEN / "archive").rglob("*.json")):
        yield path.relative_to(WRITTEN / "archive").as_posix(), path.read_text(encoding="utf-8")


class Released:
    """The lock of the site, as bob released it."""

    def look(self) -> LockVerdict:
        return judge(votes(), "mine", lambda _: False)


class Told(test_support_bundle.Evidence, test_horizon.Evidence):
    """What nodes tell for a support bundle and for the horizon."""


class Site(question_rack.Site):
    """The site on fakes, with its lock."""

    def lock(self, *_: Any, **__: Any) -> Any:
        return Released()

    @property
    def evidence(self) -> Any:
        return Told()


def votes() -> dict[str, Vote | NoVote]:
    holder = read_holder((WRITTEN / "last").read_text(encoding="utf-8"))
    return {"cp1": Vote(last=holder, last_age_seconds=5.0)}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site on ada's laptop, which knows ada's records alone."""
    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)
    found = tmp_path / "rack"
    shutil.copytree(WRITTEN / "site", found)
    (found / JOURNAL).mkdir(parents=True)
    for path in RECORDS:
        if json.loads(path.read_text())["operator"] == "ada":
            shutil.copy(path, found / JOURNAL)
    return found


@pytest.fixture
def rack(site: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRack:
    """The machines as the records say them: w2 is no member any more."""
    desired = samples.desired(load_site(site))
    without = replace(desired, site=replace(desired.site, nodes=desired.site.nodes[:2]))
    found: Any = installed(desired)
    found.cluster = replace(samples.cluster(without), roles=samples.roles(without))
    found.look_from_pods = lambda *_: PodView()
    found.documents["w2"] = samples.bare(desired.site.node("w2"))
    found.archive, found.etcd, found.clock = FakeArchive(), FakeEtcd(desired.site), FakeClock()
    found.archive.documents = dict(archived())
    found.drain = FakeDrain(found.clock)
    found.states = {node.name: patches.state(node.name) for node in desired.site.nodes}

    def connect(_self: Application, *_: Any, **__: Any) -> SiteSession:
        bundle: Any = FakeBundle(samples.manifest())
        return Site(desired.site, desired, found, found, bundle)

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr("appliance.adapters.bundle.mirror.read_mirror", lambda desired, *_: desired)
    rack: FakeRack = found
    return rack


@pytest.mark.parametrize("path", READ, ids=" ".join)
def test_a_read_only_command_reads_the_site(
    path: tuple[str, ...],
    site: Path,
    rack: FakeRack,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(site.parent)
    words = ("w1",) if path == ("node", "passport") else LOOKING[path]
    code = run([*path, *words, "--site", str(site)])
    said = capsys.readouterr()
    assert code in ((0, 5) if path in {("health",), ("horizon",)} else (0,)), said.err
    assert "not readable" not in said.err
    assert "skipped" not in said.err
    assert "written by" not in said.err
    assert rack.plays == []


def test_nothing_that_looks_at_a_site_is_left_out() -> None:
    assert LOOKING.keys() > OF_ANOTHER
    assert {*READ} | OF_ANOTHER == LOOKING.keys()


def test_every_record_is_read_with_each_of_its_fields(site: Path) -> None:
    for path in RECORDS:
        shutil.copy(path, site / JOURNAL)
    journal = FileJournal(site / JOURNAL)
    assert len(RECORDS) == 20
    assert journal.skipped() == ()
    for record in journal.read():
        written = json.loads((site / JOURNAL / record.file_name).read_text())
        assert json.loads(json.dumps(record.as_json())) == {**written, "schema": SCHEMA}
        assert record.tool_version == "0.1.0"
    assert find_later("0.1.0", journal.later_writers("0.1.0")) is None


def test_the_records_of_the_other_laptop_are_adopted(
    site: Path, rack: FakeRack, capsys: Capture
) -> None:
    assert rack.plays == []
    assert run(["site", "adopt", "--site", str(site), "--output", "json"]) == 0
    adopted = json.loads(capsys.readouterr().out)
    bobs = [path for path in RECORDS if json.loads(path.read_text())["operator"] == "bob"]
    assert adopted["records"] == len(bobs) == 2
    assert adopted["skipped"] == []
    assert len(adopted["documents"]) == 5
    assert adopted["unfinished"]["command"] == ["node", "maintain", "w1"]
    assert {path.name for path in (site / JOURNAL).iterdir()} == {path.name for path in RECORDS}
    assert run(["site", "adopt", "--site", str(site), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 0


def test_the_lock_of_an_earlier_version_names_its_holder_and_refuses_nobody() -> None:
    holder = read_holder((WRITTEN / "last").read_text())
    assert (holder.operator, holder.command, holder.tool_version) == ("bob", "node maintain", "")
    assert Released().look() == LockVerdict("open")
    assert find_later("0.1.0", writers(votes())) is None


def test_a_removed_node_stays_removed(site: Path, rack: FakeRack, capsys: Capture) -> None:
    assert isinstance(rack.cluster, Cluster)
    assert run(["plan", "--site", str(site), "--output", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert "w2" not in json.dumps(plan.get("steps", []))
    assert plan["steps"] == []
