"""``appliance cluster backup fetch``: what is typed, printed and refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.key_file import write_key
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.writer import new_backup
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.backup.record import Manifest
from appliance.model.site.recovery.backup_settings import Backup, Schedule
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeArchive, FakeClock, FakeRack
from tests.unit.backup.samples import MOMENT, about
from tests.unit.timers.node_folders import FolderNodes

Capture = pytest.CaptureFixture[str]
Typed = Callable[..., int]
NAME, OLD = "rack-20260921T141320Z", "rack-20260920T141320Z"


class _OnThatDay(FakedSite):
    """No backup here is of a time to come."""

    @property
    def clock(self) -> Any:
        found = FakeClock()
        found.time = MOMENT + 86_400
        return found


@pytest.fixture
def nodes(tmp_path: Path) -> FolderNodes:
    """cp1 holds two backups; cp2 one of another site, and a half one."""
    recipient = write_key(tmp_path / "key.txt")
    for folder, name in (("cp1", OLD), ("cp1", NAME), ("cp2", "rack8-20260922T000000Z")):
        (tmp_path / folder).mkdir(exist_ok=True)
        with new_backup(FolderPlace(tmp_path / folder), name, [recipient], MOMENT) as writer:
            writer.put("etcd/snapshot.db", b"snapshot")
            told = about(name, name.partition("-")[0])
            writer.finish(Manifest(told, "api.rack.test:6443", ()))
    (tmp_path / "cp2/rack-20260923T000000Z.backup.partial").write_bytes(b"half")
    return FolderNodes({name: tmp_path / name for name in ("cp1", "cp2")})


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nodes: FolderNodes) -> Typed:
    """Type words of the group; the site has a place, a schedule and these nodes."""
    (tmp_path / "place").mkdir()
    wanted = Backup(
        recipients=(write_key(tmp_path / "mine.txt"),),
        to=str(tmp_path / "place"),
        schedule=Schedule(at="daily 02:30"),
    )
    plain = samples.site(3, 1)
    settings = plain.settings.model_copy(update={"backup": wanted})
    site = replace(plain, settings=settings, directory=tmp_path)
    desired = samples.desired(site)
    fake: Any = FakeRack(desired)
    fake.archive, fake.clock = FakeArchive(), FakeClock()
    fake.run_as_root, fake.stream_as_root = nodes.run_as_root, nodes.stream_as_root

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        return _OnThatDay(site, desired, fake, fake, None)

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr(Application, "site", lambda *_: site)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)

    def typed(*words: str) -> int:
        return run(["cluster", "backup", *words, "--site", str(tmp_path)])

    return typed


def test_the_newest_is_copied_and_verified_as_the_hint_says(
    typed: Typed, tmp_path: Path, capsys: Capture
) -> None:
    assert typed("fetch") == 0
    said = capsys.readouterr()
    row = next(line for line in said.out.splitlines() if NAME in line)
    assert re.search(r"cp1 +2026-09-21 14:13 +0\.\d +1 +copied", row)
    assert "left on cp2: rack8-20260922T000000Z: it is of another site: rack8" in said.err
    assert "left on cp2: rack-20260923T000000Z: it was not written to its end" in said.err
    (hint,) = re.findall(r"to prove it: appliance cluster backup (.*)", said.out + said.err)
    words = shlex.split(hint.replace(" --identity KEY", ""))
    assert typed(*words) == 0
    assert sorted(one.name for one in (tmp_path / "place").iterdir()) == [
        f"{NAME}.backup", f"{NAME}.backup.json",
    ]  # fmt: skip


@pytest.mark.parametrize(("room", "told"), [(13, "room for 13 more"), (14, "")])
def test_a_place_that_fills_is_foreseen(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, capsys: Capture, room: int, told: str
) -> None:
    """Nothing removes what was fetched, and the page says to fetch every day."""
    assert typed("fetch", "-o", "json") == 0
    said = capsys.readouterr()
    assert "room for" not in said.err
    (one,) = json.loads(said.out)["backups"]
    monkeypatch.setattr(FolderPlace, "free_bytes", lambda _self: room * one["size"])
    assert typed("fetch") == 0
    said = capsys.readouterr()
    assert (told in said.err, "room for" in said.err) == (True, bool(told))


def test_more_of_one_node_into_another_place_for_programs(
    typed: Typed, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "elsewhere").mkdir()
    given = ("--to", str(tmp_path / "elsewhere"), "--node", "cp1", "--newest", "5", "-o", "json")
    for outcome in ("fetched", "there"):
        assert typed("fetch", *given) == 0
        told = json.loads(capsys.readouterr().out)
        assert [(one["id"], one["node"], one["outcome"]) for one in told["backups"]] == [
            (OLD, "cp1", outcome), (NAME, "cp1", outcome),
        ]  # fmt: skip
        assert [one["recipients"] for one in told["backups"]] == [1, 1]
        assert (told["left"], told["place"]) == ([], str(tmp_path / "elsewhere"))
    assert list((tmp_path / "place").iterdir()) == []


def test_the_list_shows_what_nodes_hold_and_how_many_keys(typed: Typed, capsys: Capture) -> None:
    assert typed("list") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if NAME in line)
    assert re.search(r"0\.\d +1 +on cp1: whole", row)


def test_another_file_of_the_name_stays_and_the_rest_is_copied(
    typed: Typed, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / f"place/{NAME}.backup").write_bytes(b"of somebody")
    assert typed("fetch", "--newest", "2") == 3
    said = capsys.readouterr()
    assert f"has a different file named {NAME}, which stays" in said.err
    assert re.search(rf"{OLD}.* copied", said.out)
    assert (tmp_path / f"place/{NAME}.backup").read_bytes() == b"of somebody"


def test_several_that_fail_are_all_named(
    typed: Typed, nodes: FolderNodes, tmp_path: Path, capsys: Capture
) -> None:
    nodes.flips = True
    assert typed("fetch", "--newest", "2") == 5
    said = capsys.readouterr().err
    assert "2 of 2 backups were not copied" in said
    assert f"{OLD}.backup: the copy's sha256 is not the recorded one" in said
    assert list((tmp_path / "place").iterdir()) == []


def test_a_silent_node_is_named_and_the_others_give_theirs(
    typed: Typed, nodes: FolderNodes, capsys: Capture
) -> None:
    nodes.silent = {"cp2"}
    assert typed("fetch") == 0
    assert "not asked: cp2: no answer within" in capsys.readouterr().err
    nodes.silent = {"cp1", "cp2", "cp3"}
    assert typed("fetch") == 4
    assert "cp1: no answer within" in capsys.readouterr().err


# What is typed -> its exit code, and what is told.
REFUSED: dict[tuple[str, ...], tuple[int, str]] = {
    ("fetch", "--node", "w1"): (2, "w1 is no control-plane node of the site: cp1, cp2, cp3"),
    ("fetch", "--node", "cp3"): (5, "no whole backup of rack is on cp3"),
    ("fetch", "--newest", "0"): (2, "--newest"),
    ("fetch", "--to", "/nowhere/at/all"): (3, "is not a folder"),
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_is_refused(
    typed: Typed, tmp_path: Path, capsys: Capture, words: tuple[str, ...]
) -> None:
    code, why = REFUSED[words]
    assert typed(*words) == code
    assert why in capsys.readouterr().err
    assert list((tmp_path / "place").iterdir()) == []
