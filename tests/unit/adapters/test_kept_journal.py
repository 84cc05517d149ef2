"""The journal travels: copies on the control-plane nodes, and back on another laptop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.adapters.control_plane.archive import ControlPlaneArchive
from appliance.adapters.control_plane.holding import SiteLocks
from appliance.adapters.control_plane.journal import FileJournal
from appliance.adapters.control_plane.kept_documents import KeptDocuments
from appliance.adapters.control_plane.lock import SiteLease, awake_seconds, holder_of
from appliance.adapters.control_plane.replicated_journal import KeptJournal
from appliance.errors import Refused
from appliance.model.state.journal import Record, read_record
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.session import Session
from appliance.workflows.site.adopt import site_adopt
from tests import samples
from tests.fakes import RUN_A, RUN_B, RUN_Z, FakeClock, run
from tests.unit.adapters.shell_nodes import ShellNodes


@pytest.fixture
def nodes(tmp_path: Path) -> ShellNodes:
    return ShellNodes(tmp_path / "nodes")


@pytest.fixture
def archive(nodes: ShellNodes) -> ControlPlaneArchive:
    return ControlPlaneArchive(samples.site(masters=3), nodes)


def _record(sequence: int, run_id: str = RUN_A) -> Record:
    return Record(
        run=run_id,
        sequence=sequence,
        command="install",
        step="host",
        nodes=("w1",),
        why=(),
        started="2026-01-01T00:00:00+00:00",
        took_seconds=1.0,
        outcome="verified",
        operator="ada",
        tool_version="1",
        host="laptop",
    )


def test_a_record_is_copied_and_what_was_missed_comes_with_the_next(
    tmp_path: Path, nodes: ShellNodes, archive: ControlPlaneArchive
) -> None:
    said: list[str] = []
    local = FileJournal(tmp_path / "journal")
    journal = KeptJournal(local, archive, said.append)
    nodes.away = {"cp1", "cp2", "cp3"}
    journal.append(_record(1))
    journal.append(_record(2))
    journal.settle(20)
    assert len(said) == 1
    assert said[0].startswith("the journal will be copied to the control-plane nodes later: ")
    nodes.away = set()
    later = KeptJournal(local, archive, said.append)
    later.append(_record(3))
    later.settle(20)
    assert archive.names("journal") == tuple(f"journal/{RUN_A}-00{n}.json" for n in (1, 2, 3))
    name = f"{RUN_A}-002.json"
    assert read_record(name, archive.get(f"journal/{name}") or "") == _record(2)
    asked = len(nodes.asked)
    later.append(_record(4))
    later.settle(20)
    assert len(nodes.asked) == asked + 3, "one round for one record"
    assert journal.read() == [_record(n) for n in (1, 2, 3, 4)]


def test_what_is_no_record_is_not_copied_and_holds_up_no_other(
    tmp_path: Path, archive: ControlPlaneArchive
) -> None:
    said: list[str] = []
    folder = tmp_path / "journal"
    journal = KeptJournal(FileJournal(folder), archive, said.append)
    folder.mkdir()
    whole = json.dumps(_record(2).as_json())
    broken = {
        f"{RUN_A}-001.json": b"",
        f"{RUN_A}-002.json": whole.encode()[:60],
        f"{RUN_A}-003.json": b"\xff\xfe",
        f"{RUN_A}-002 (copy).json": whole.encode(),
    }
    for name, content in broken.items():
        (folder / name).write_bytes(content)
    journal.append(_record(4))
    journal.settle(20)
    assert archive.names("journal") == (f"journal/{RUN_A}-004.json",)
    (folder / f"{RUN_A}-002.json").write_text(whole)
    journal.append(_record(5))
    journal.settle(20)
    assert archive.names("journal") == tuple(f"journal/{RUN_A}-00{n}.json" for n in (2, 4, 5))
    assert said == []
    assert journal.durations() == {"host": 1.0}


def test_another_laptop_gets_all_and_keeps_its_own(
    tmp_path: Path, nodes: ShellNodes, archive: ControlPlaneArchive
) -> None:
    here = KeptJournal(FileJournal(tmp_path / "here"), archive, print)
    here.append(_record(1))
    here.settle(20)
    archive.put("passports/w1.json", "{}\n")
    there = FileJournal(tmp_path / "there" / "journal")
    there.append(_record(1, RUN_B))
    site = samples.site(masters=3)
    lease = SiteLease(site, nodes, holder_of(run(), ""), awake_seconds(), print)
    session = Session(
        archive=archive,
        records=there,
        documents=KeptDocuments(tmp_path / "there"),
        lock=SiteLocks(tmp_path / "there", "site adopt", lease),
    )
    adopted = site_adopt(session)
    assert (adopted.records, adopted.documents) == (1, ("passports/w1.json",))
    assert adopted.handover.unfinished is None
    assert there.read() == [_record(1), _record(1, RUN_B)]
    passport = tmp_path / "there" / "passports" / "w1.json"
    assert passport.stat().st_mode & 0o777 == 0o600
    again = site_adopt(session)
    assert (again.records, again.documents) == (0, ())


def test_a_hostile_control_plane_node_writes_nothing_outside_and_stops_no_adoption(
    tmp_path: Path, nodes: ShellNodes, archive: ControlPlaneArchive
) -> None:
    evil = json.dumps({**_record(1).as_json(), "run": "../../../elsewhere/evil"})
    archive.put(f"journal/{RUN_A}-001.json", json.dumps(_record(1).as_json()))
    archive.put("journal/evil.json", evil)
    archive.put(f"journal/{RUN_B}-001.json", json.dumps({**_record(1).as_json(), "nodes": [5]}))
    archive.put("passports/w1.json", "[" * 10_000)
    archive.put("passports/w2.json", "{}")
    site, state = samples.site(masters=3), tmp_path / "there" / ".appliance"
    lease = SiteLease(site, nodes, holder_of(run(), ""), awake_seconds(), print)
    there = FileJournal(state / "journal")
    lock = SiteLocks(state, "site adopt", lease)
    adopted = site_adopt(
        Session(archive=archive, records=there, documents=KeptDocuments(state), lock=lock)
    )
    assert (adopted.records, adopted.documents) == (1, ("passports/w2.json",))
    assert [sentence.split("'")[1] for sentence in adopted.skipped] == [
        "passports/w1.json",
        f"{RUN_B}-001.json",
        "evil.json",
    ]
    assert there.read() == [_record(1)]
    written = [path for path in tmp_path.joinpath("there").rglob("*") if path.is_file()]
    assert len(written) == 2
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{RUN_A}-001.json", "{"),
        (f"{RUN_A}-001.json", "[]"),
        (f"{RUN_A}-001.json", '{"schema": 1}'),
        (f"{RUN_Z}-001.json", json.dumps(_record(1).as_json())),
        (f"../{RUN_A}-001.json", json.dumps(_record(1).as_json())),
    ],
)
def test_what_is_no_record_is_named_and_the_others_are_kept(
    tmp_path: Path, name: str, text: str
) -> None:
    journal = FileJournal(tmp_path / "journal")
    good = {f"{RUN_A}-002.json": json.dumps(_record(2).as_json())}
    merged = journal.merge({name: text, **good})
    assert merged.new == 1
    (named,) = merged.skipped
    assert name in named
    assert journal.read() == [_record(2)]


def test_the_first_step_takes_the_site_and_a_refused_one_leaves_no_record(
    tmp_path: Path, nodes: ShellNodes, archive: ControlPlaneArchive
) -> None:
    site, state = samples.site(masters=3), tmp_path / "state"
    local = FileJournal(tmp_path / "journal")

    def holding(run_id: str) -> SiteLocks:
        holder = holder_of(run(), "a reason")
        holder = type(holder)(run_id, "install", "ada", "laptop", "", "T", holder.origin)
        lease = SiteLease(site, nodes, holder, awake_seconds(), print)
        return SiteLocks(state / run_id, "install", lease)

    kept = KeptJournal(local, archive, print)

    def recorder(lock: SiteLocks) -> Recorder:
        return Recorder(run(), Session(journal=kept, lock=lock, clock=FakeClock()))

    first, second, third = holding("one"), holding("two"), holding("three")
    with first:
        with first:
            recorder(first).begin()
        with (
            second,
            pytest.raises(Refused, match="another command is at work"),
            recorder(second).step("host", ["w1"], ()),
        ):
            pytest.fail("the step began")
        assert local.read() == []
    with third, recorder(third).step("host", ["w1"], ()):
        pass
    kept.settle(20)
    assert [one.step for one in local.read()] == ["host"]
