"""Commands on a site where nobody can say which nodes were removed on purpose."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.errors import NodeUnreachable
from appliance.model.node.membership import FOLDER, MemberRecord, Removal
from appliance.model.state.cluster.cluster import Cluster
from tests import samples
from tests.cli.faked_site import FakedSite, installed
from tests.fake_emptying import FakeEmptying
from tests.fakes import FakeArchive, FakeBundle, FakeEtcd, FakeRack

Capture = pytest.CaptureFixture[str]
GONE = MemberRecord("w2", Removal("ada@laptop", "2026-01-01T00:00:00+00:00", "sold"))
UNKNOWN = "cannot read which nodes were removed on purpose: cp1: busy"
BUSY = NodeUnreachable("cp1: busy", hint="look at it")


class BusyArchive(FakeArchive):
    """Is too busy for what it keeps of members, and takes everything else."""

    busy: bool = True

    def _of_members(self, name: str) -> None:
        if self.busy and name.startswith(FOLDER):
            raise BUSY

    def get(self, name: str) -> str | None:
        self._of_members(name)
        return super().get(name)

    def names(self, folder: str) -> tuple[str, ...]:
        self._of_members(folder)
        return super().names(folder)


class Site(FakedSite):
    """A site whose adapters are fakes."""

    fakes: BusyArchive

    @property
    def archive(self) -> Any:
        return self.fakes

    @property
    def etcd(self) -> Any:
        return FakeEtcd(self.site)

    def emptying(self, *_: Any) -> Any:
        return nullcontext(FakeEmptying())

    def preflight(self, *_: Any) -> Any:
        return ()


class Scene:
    """A site from which w2 was removed; ``archive`` knows it and does not say so."""

    def __init__(self, rack: FakeRack, archive: BusyArchive) -> None:
        self.rack, self.archive = rack, archive

    def play(self, *words: str) -> int:
        return run([*words, "--site", str(self.rack.desired.site.directory)])

    @property
    def is_untouched(self) -> bool:
        documents = {n: t for n, t in self.archive.documents.items() if not n.startswith("journal")}
        return (self.rack.plays, self.rack.deleted, documents) == (
            [], [], {GONE.document: GONE.text()},
        )  # fmt: skip


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scene:
    desired = samples.desired(replace(samples.site(3), directory=tmp_path))
    rack, archive = installed(desired), BusyArchive()
    archive.put(GONE.document, GONE.text())
    rack.documents["w2"] = samples.bare(desired.site.node("w2"))
    assert isinstance(rack.cluster, Cluster)
    nodes = {name: one for name, one in rack.cluster.nodes.items() if name != "w2"}
    rack.cluster = replace(rack.cluster, nodes=nodes)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)

    def connect(_self: Application, *_: Any, **__: Any) -> SiteSession:
        site = Site(desired.site, desired, rack, rack, FakeBundle(samples.manifest()))  # type: ignore[arg-type]
        site.fakes = archive
        return site

    monkeypatch.setattr(Application, "connect", connect)
    return Scene(rack, archive)


def test_an_install_brings_no_removed_node_back(scene: Scene, capsys: Capture) -> None:
    assert scene.play("install", "--yes") == 4
    said = capsys.readouterr().err
    assert UNKNOWN in said
    assert "hint: look at it" in said
    assert scene.is_untouched
    scene.archive.busy = False
    assert scene.play("install", "--yes") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert scene.is_untouched


@pytest.mark.parametrize("verb", ["remove", "rejoin", "add"])
def test_no_record_is_written_over_one_that_was_not_read(
    scene: Scene, capsys: Capture, verb: str
) -> None:
    assert scene.play("node", verb, "w2", "--yes") == 4
    assert UNKNOWN in capsys.readouterr().err
    assert scene.is_untouched


@pytest.mark.parametrize(
    "words",
    [
        ("plan",),
        ("status",),
        ("install", "--dry-run"),
    ],
    ids="-".join,
)
def test_who_only_looks_goes_on(scene: Scene, capsys: Capture, words: tuple[str, ...]) -> None:
    assert scene.play(*words) == 0
    assert capsys.readouterr().err.count(f"warning: {UNKNOWN}") == 1
    assert scene.is_untouched
    scene.archive.busy = False
    assert scene.play(*words) == 0
    assert UNKNOWN not in capsys.readouterr().err


def test_what_was_not_read_is_said_although_the_look_then_fails(
    scene: Scene, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any) -> Any:
        raise NodeUnreachable("w1: no SSH")

    monkeypatch.setattr(scene.rack, "look", silent)
    assert scene.play("status") == 4
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first == f"warning: {UNKNOWN}"
    assert second == "error: w1: no SSH"


def test_a_passport_that_could_not_be_read_is_not_treated_as_none(
    scene: Scene, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(name: str) -> str | None:
        raise NodeUnreachable(f"{name}: cp1 is busy")

    scene.archive.busy = False
    monkeypatch.setattr(scene.archive, "get", silent)
    assert scene.play("node", "rejoin", "w2", "--yes") == 4
    assert "passports/w2.json: cp1 is busy" in capsys.readouterr().err
    assert scene.is_untouched
