"""The scripts of the lock, run here by a shell in place of SSH."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane import lock
from appliance.adapters.control_plane.lock import SiteLease, awake_seconds, is_dead, origin
from appliance.errors import ApplianceError, LeaseLost, NodeUnreachable, Refused
from appliance.model.control.lock import EXPIRY_SECONDS, SILENT_SECONDS, Holder, read_holder
from tests import samples
from tests.unit.adapters.shell_nodes import ShellNodes

Make = Callable[..., SiteLease]
FAR = Holder("far", "install", "bob", "desk", "a DIMM", "T")


@pytest.fixture
def nodes(tmp_path: Path) -> ShellNodes:
    return ShellNodes(tmp_path)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def make(nodes: ShellNodes, said: list[str]) -> Make:
    """A lease by run id; it began to look at this moment."""

    def one(run: str, masters: int = 3, looking_since: float | None = None) -> SiteLease:
        holder = Holder(run, "install", "ada", "laptop", "", "T", origin())
        began = awake_seconds() if looking_since is None else looking_since
        return SiteLease(samples.site(masters=masters), nodes, holder, began, said.append)

    return one


def holders(nodes: ShellNodes) -> dict[str, str]:
    """Node -> the run whose lock file it has."""
    found = {}
    for name in ("cp1", "cp2", "cp3"):
        path = nodes.state(name) / "lock" / "holder"
        found[name] = read_holder(path.read_text()).run if path.exists() else ""
    return found


def plant(nodes: ShellNodes, node: str, holder: Holder, age: float) -> None:
    """A lock of somebody, renewed so long ago."""
    folder = nodes.state(node) / "lock"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "holder").write_text(holder.as_line())
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (folder / "beat").write_text(f"{boot} {awake_seconds() - age:.2f}\n")


def test_it_is_taken_on_bare_nodes_and_given_back(make: Make, nodes: ShellNodes) -> None:
    mine = make("one")
    assert mine.acquire() == ()
    assert set(holders(nodes).values()) == {"one"}
    assert nodes.state("cp1").stat().st_mode & 0o777 == 0o755
    assert (nodes.state("cp1") / "lock").stat().st_mode & 0o777 == 0o700
    assert (nodes.state("cp1") / "lock" / "holder").stat().st_mode & 0o777 == 0o600
    mine.require()
    mine.release()
    assert set(holders(nodes).values()) == {""}
    assert sorted(p.name for p in (nodes.state("cp1") / "lock").iterdir()) == [
        *("guard", "last", "left")
    ]


def test_the_second_is_told_who_where_what_why_and_since_when(
    make: Make, nodes: ShellNodes
) -> None:
    for name in ("cp1", "cp2", "cp3"):
        plant(nodes, name, FAR, 5)
    with pytest.raises(Refused) as refused:
        make("two").acquire()
    assert refused.value.exit_code == 3
    assert refused.value.message == (
        "another command is at work on this site: install (a DIMM) by bob on desk since T"
    )
    assert set(holders(nodes).values()) == {"far"}


def test_of_many_at_once_one_has_it(make: Make, nodes: ShellNodes) -> None:
    leases = [make(f"run-{number}") for number in range(5)]
    ended: list[SiteLease | ApplianceError] = []

    def take(one: SiteLease) -> None:
        try:
            one.acquire()
            ended.append(one)
        except ApplianceError as error:
            ended.append(error)

    threads = [threading.Thread(target=take, args=(one,)) for one in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [one for one in ended if isinstance(one, SiteLease)]
    assert len(winners) == 1
    assert {type(one) for one in ended if isinstance(one, ApplianceError)} == {Refused}
    (run,) = set(holders(nodes).values()) - {""}
    assert list(holders(nodes).values()).count(run) >= 2
    winners[0].release()


def test_half_of_a_lock_is_given_back(make: Make, nodes: ShellNodes) -> None:
    plant(nodes, "cp1", FAR, 5)
    plant(nodes, "cp2", FAR, 5)
    with pytest.raises(Refused):
        make("two").acquire()
    assert holders(nodes) == {"cp1": "far", "cp2": "far", "cp3": ""}
    assert not (nodes.state("cp3") / "lock" / "last").exists(), "nobody held it"


def test_an_expired_lock_is_taken_over_and_said(
    make: Make, nodes: ShellNodes, said: list[str]
) -> None:
    for name in ("cp1", "cp2", "cp3"):
        plant(nodes, name, FAR, EXPIRY_SECONDS + 1)
    mine = make("two")
    assert mine.acquire() == ("took over the lock of install (a DIMM) by bob on desk since T",)
    assert len(said) == 1
    assert set(holders(nodes).values()) == {"two"}
    mine.release()


def test_what_a_killed_process_of_this_machine_held_is_taken_at_once(
    make: Make, nodes: ShellNodes
) -> None:
    program = (
        "from appliance.adapters.control_plane.lock import origin as o; print(o().pid, o().started)"
    )
    gone = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    pid, started = map(int, gone.stdout.split())
    dead = replace(FAR, origin=replace(origin(), pid=pid, started=started))
    for name in ("cp1", "cp2", "cp3"):
        plant(nodes, name, dead, 5)
    mine = make("two")
    assert len(mine.acquire()) == 1
    mine.release()


@pytest.mark.parametrize(
    ("changes", "dead"),
    [
        ({}, False),
        ({"started": 1}, True),
        ({"started": 1, "boot": "another"}, False),
        ({"started": 1, "namespace": "pid:[1]"}, False),
        ({"pid": 0}, False),
    ],
)
def test_only_a_process_of_this_machine_is_known_to_be_dead(
    changes: dict[str, Any], *, dead: bool
) -> None:
    assert is_dead(replace(FAR, origin=replace(origin(), **changes))) is dead


def test_a_site_that_was_changed_while_we_looked_is_refused(make: Make, nodes: ShellNodes) -> None:
    began = awake_seconds() - 30
    first = SiteLease(samples.site(masters=3), nodes, FAR, awake_seconds(), print)
    first.acquire()
    first.release()
    with pytest.raises(Refused, match="was changed while this command inspected it: install"):
        make("two", looking_since=began).acquire()
    assert set(holders(nodes).values()) == {""}
    third = make("three")
    third.acquire()
    third.release()


def test_one_of_three_may_be_away(make: Make, nodes: ShellNodes) -> None:
    nodes.away = {"cp2"}
    mine = make("one")
    mine.acquire()
    with pytest.raises(Refused):
        make("two").acquire()
    mine.release()


def test_no_majority_answers(make: Make, nodes: ShellNodes, said: list[str]) -> None:
    nodes.away = {"cp1", "cp2"}
    with pytest.raises(NodeUnreachable, match="locked on 2 of 3 control-plane nodes: cp1: no"):
        make("one").acquire()
    assert set(holders(nodes).values()) == {""}
    nodes.away = {"cp1", "cp2", "cp3"}
    lone = make("one")
    assert len(lone.acquire()) == 1
    assert said == ["no control-plane node answers: holding only this machine's lock"]
    lone.require()
    lone.release()


def test_a_node_that_cannot_write_is_named(make: Make, nodes: ShellNodes) -> None:
    nodes.state("cp1").mkdir(parents=True)
    (nodes.state("cp1") / "lock").write_text("a file in its place")
    with pytest.raises(Refused, match="cp1: /var/lib/appliance/lock could not be written"):
        make("one", masters=1).acquire()


def test_a_beat_renews_and_recreates_where_a_node_was_rebuilt(
    make: Make, nodes: ShellNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    mine = make("one")
    mine.acquire()
    subprocess.run(["rm", "-r", str(nodes.state("cp1"))], check=True)
    deadline = awake_seconds() + 20
    while holders(nodes)["cp1"] != "one":
        assert awake_seconds() < deadline
    mine.require()
    mine.release()
    assert set(holders(nodes).values()) == {""}


def test_a_lock_that_was_taken_over_is_noticed_and_said(
    make: Make, nodes: ShellNodes, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    mine = make("one")
    mine.acquire()
    for name in ("cp1", "cp2"):
        plant(nodes, name, FAR, 0)
    deadline = awake_seconds() + 20
    while not said:
        assert awake_seconds() < deadline
    with pytest.raises(LeaseLost, match=r"taken over by install \(a DIMM\) by bob on desk"):
        mine.require()
    mine.release()
    assert holders(nodes) == {"cp1": "far", "cp2": "far", "cp3": ""}


def test_silence_loses_the_lock_before_another_may_take_it(
    make: Make, nodes: ShellNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SILENT_SECONDS < EXPIRY_SECONDS
    mine = make("one")
    mine.acquire()
    nodes.away = {"cp1", "cp2", "cp3"}
    mine.require()
    now = awake_seconds()
    monkeypatch.setattr(lock, "awake_seconds", lambda: now + SILENT_SECONDS + 1)
    with pytest.raises(LeaseLost, match="no majority of the control-plane nodes answers"):
        mine.require()


def test_a_machine_that_slept_continues_if_no_other_took_the_lock(
    make: Make, nodes: ShellNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make("one")
    mine.acquire()
    now = awake_seconds()
    monkeypatch.setattr(lock, "awake_seconds", lambda: now + 3600)
    mine.require()
    subprocess.run(["rm", str(nodes.state("cp1") / "lock" / "holder")], check=True)
    subprocess.run(["rm", str(nodes.state("cp2") / "lock" / "holder")], check=True)
    monkeypatch.setattr(lock, "awake_seconds", lambda: now + 7200)
    with pytest.raises(LeaseLost, match="another command, which has released it"):
        mine.require()
    assert holders(nodes) == {"cp1": "", "cp2": "", "cp3": "one"}, "made nothing anew"
    mine.release()


def test_a_look_writes_nothing(make: Make, nodes: ShellNodes) -> None:
    assert make("one").look().state == "open"
    assert not nodes.state("cp1").exists()
    plant(nodes, "cp1", FAR, 5)
    plant(nodes, "cp2", FAR, 5)
    verdict = make("one").look()
    assert (verdict.state, verdict.rival) == ("held", FAR)
    assert not (nodes.state("cp1") / "lock" / "guard").exists()


def test_an_empty_lock_file_after_a_power_loss_has_no_owner(make: Make, nodes: ShellNodes) -> None:
    plant(nodes, "cp1", FAR, 5)
    (nodes.state("cp1") / "lock" / "holder").write_text("")
    mine = make("one", masters=1)
    mine.acquire()
    mine.release()


@pytest.mark.parametrize(("version", "refused"), [("9.0.0", True), ("", False), ("0.1.0", False)])
@pytest.mark.parametrize("file", ["last", "holder"])
def test_what_a_later_version_changed_last_is_not_changed_by_this_one(
    make: Make, nodes: ShellNodes, version: str, refused: bool, file: str
) -> None:
    """The journal of this laptop need not know it: the records are on the nodes alone."""
    far = replace(FAR, tool_version=version)
    plant(nodes, "cp2", far, EXPIRY_SECONDS + 1)
    if file == "last":
        folder = nodes.state("cp2") / "lock"
        (folder / "holder").rename(folder / "last")
        (folder / "beat").unlink()
    lease = make("two")
    lease._holder = replace(lease._holder, tool_version="0.8.0")
    if not refused:
        lease.acquire()
        lease.release()
        return
    with pytest.raises(Refused, match=r"appliance 9\.0\.0 on desk; this is 0\.8\.0"):
        lease.acquire()
    assert set(holders(nodes).values()) - {"far"} == {""}
