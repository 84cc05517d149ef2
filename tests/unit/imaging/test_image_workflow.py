"""Many servers at once: each to its end, those with faults named, and the same command goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import (
    ApplianceError,
    ConfigError,
    Interrupted,
    NodeUnreachable,
    PreflightFailed,
    StepNotVerified,
)
from appliance.model.node.baseline import Passport
from appliance.model.node.imaging.batch import Note
from tests import samples
from tests.unit.imaging.fake_rack import URL, FakeRack, host_key


def test_a_rack_is_installed_and_each_server_is_recorded() -> None:
    rack = FakeRack()
    done = rack.image()
    assert set(rack.known) == set(rack.names)
    assert done.failures == {}
    assert rack.notes == {}
    records = rack.journal.records
    assert sorted(name for record in records for name in record.nodes) == sorted(rack.names)
    assert all(record.outcome == "verified" and record.took_seconds > 0 for record in records)
    assert rack.observer.said[-1][0::3] == ("ended", None)
    assert {server.medium for server in rack.servers.values()} == {""}


def test_six_are_done_two_are_named_and_the_same_command_does_those_two() -> None:
    rack = FakeRack(8, {"w3": "hangs", "w5": "rejects"})
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert caught.value.exit_code == 1
    assert caught.value.message == "2 of 8 servers are not installed: w3, w5"
    assert any("hangs" in line for line in caught.value.details)
    assert "w5: its BMC refused the image: 400" in caught.value.details
    assert "the others are done" in str(caught.value.hint)
    assert "for w3 w5 alone" in str(caught.value.hint)
    ended = [one for one in rack.observer.said if one[0] == "ended"]
    assert [str(one[-1]) for one in ended] == ["not installed: w3, w5", "None"]
    assert set(rack.known) == set(rack.names) - {"w3", "w5"}
    outcomes = {record.nodes[0]: record.outcome for record in rack.journal.records}
    assert {name for name, outcome in outcomes.items() if outcome == "failed"} == {"w3", "w5"}
    rack.release.set()
    for name in ("w3", "w5"):
        rack.servers[name].fault = ""
    before = {name: list(server.orders) for name, server in rack.servers.items()}
    done = rack.image()
    assert rack.offered[-1] == ("w3", "w5")
    assert done.waiting == ("w3", "w5")
    assert set(rack.known) == set(rack.names)
    touched = {
        name
        for name, server in rack.servers.items()
        if set(server.orders[len(before[name]) :]) - {"look"}
    }
    assert touched == {"w3", "w5"}


def test_where_none_is_installed_no_other_is_said_to_be_done() -> None:
    rack = FakeRack(2, {"w1": "rejects", "w2": "stops"})
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert caught.value.hint == "run the same command again"
    said = [one for one in rack.observer.said if one[0] == "task"]
    assert ("task", "image", "w1", "w1: its BMC refused the image: 400", None) in said


def test_a_bmc_that_fails_twice_is_tried_again() -> None:
    rack = FakeRack(2, {"w1": "flaky"})
    rack.image()
    assert rack.servers["w1"].orders.count("insert") == 3


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("lies", "reports power On"),
        ("stops", "its installer stopped: curtin failed"),
        ("silent", "it reported nothing"),
        ("other key", "another host key"),
        ("unreachable", "does not answer"),
    ],
)
def test_one_fault_is_named_and_holds_nobody_up(fault: str, said: str) -> None:
    rack = FakeRack(3, {"w2": fault})
    with pytest.raises(StepNotVerified, match="1 of 3 servers are not installed: w2") as caught:
        rack.image()
    assert said in caught.value.details[0]
    assert set(rack.known) == {"w1", "w3"}


def test_the_second_time_nothing_is_done_and_wipe_does_it_again() -> None:
    rack = FakeRack(1)
    rack.image()
    orders = len(rack.servers["w1"].orders)
    assert rack.image().courses["w1"].kind == "done"
    assert set(rack.servers["w1"].orders[orders:]) == {"look"}
    rack.image(wipe=["SN-w1"])
    assert rack.offered == [("w1",), ("w1",)]


def test_a_system_of_somebody_is_refused_and_nothing_is_sent() -> None:
    rack = FakeRack(2)
    server = rack.servers["w2"]
    server.content, server.power = "system", "On"
    rack.known["w2"] = host_key("w2")
    other = samples.bare(rack.site.node("w2"))
    other["host"]["hostname"] = "payroll"
    rack.documents["w2"] = other
    with pytest.raises(PreflightFailed) as caught:
        rack.image()
    assert any("w2: system" in line for line in (caught.value.message, *caught.value.details))
    assert all(set(one.orders) == {"look"} for one in rack.servers.values())
    assert rack.journal.records == []
    rack.documents.clear()
    rack.image(wipe=["SN-w2"])
    assert set(rack.known) == {"w1", "w2"}


def test_a_disk_that_is_not_empty_is_refused_by_the_installer() -> None:
    rack = FakeRack(1)
    rack.servers["w1"].content = "system"
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert "is not empty" in caught.value.details[0]
    rack.image(wipe=["SN-w1"])
    assert set(rack.known) == {"w1"}


def test_an_accepted_node_that_is_silent_is_refused() -> None:
    rack = FakeRack(1)
    passports = {"w1": Passport("w1", {"machine": "SN-w1"})}
    with pytest.raises(PreflightFailed):
        rack.image(passports=passports)
    assert set(rack.servers["w1"].orders) == {"look"}


def test_a_bmc_of_another_machine_is_refused_whatever_wipe_names() -> None:
    rack = FakeRack(1)
    node = rack.site.node("w1")
    assert node.imaging is not None
    imaging = node.imaging.model_copy(update={"machine_serial": "SN-other"})
    nodes = tuple(
        replace(one, imaging=imaging) if one.name == "w1" else one for one in rack.site.nodes
    )
    rack.site = replace(rack.site, nodes=nodes)
    with pytest.raises(PreflightFailed):
        rack.image(wipe=["SN-w1"])
    assert set(rack.servers["w1"].orders) == {"look"}


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("empty", Note("SN-w1", "DISK-w1")),
        ("half", Note("SN-w1", "DISK-w1", writing=True)),
        ("system", Note("SN-w1", "DISK-w1", writing=True)),
        ("system", Note("SN-w1", "DISK-w1", True, host_key("w1"))),
    ],
)
def test_what_a_killed_run_left_is_finished_without_wipe(content: str, note: Note) -> None:
    rack = FakeRack(1)
    rack.servers["w1"].content = content
    rack.servers["w1"].medium = "http://198.18.7.2:1/gone.iso"
    rack.notes["w1"] = note
    rack.image()
    assert set(rack.known) == {"w1"}
    assert rack.notes == {}
    assert rack.offered == [("w1",) if not note.host_key else ()]


@pytest.mark.parametrize(
    "note", [Note("SN-w2", "DISK-w1", writing=True), Note("SN-w1", "DISK-other", writing=True)]
)
def test_a_note_of_another_machine_or_disk_lets_nothing_be_wiped(note: Note) -> None:
    rack = FakeRack(1)
    rack.servers["w1"].content = "system"
    rack.notes["w1"] = note
    with pytest.raises(StepNotVerified):
        rack.image()


REFUSED = "no SSH on port 22: connection refused"


def left_at_work(content: str, *, writing: bool, medium: str = URL) -> FakeRack:
    """A rack where a killed run left an installer that answers at the server's address."""
    rack = FakeRack(2)
    server = rack.servers["w1"]
    server.content, server.power, server.medium = content, "On", medium
    rack.alive["w1"] = REFUSED
    rack.notes["w1"] = Note("SN-w1", "DISK-w1", writing=writing, media=(URL,))
    return rack


@pytest.mark.parametrize(("content", "writing"), [("empty", False), ("half", True)])
def test_an_installer_that_a_killed_run_left_at_work_is_begun_again(
    content: str, writing: bool
) -> None:
    rack = left_at_work(content, writing=writing)
    rack.image()
    assert set(rack.known) == {"w1", "w2"}
    assert rack.notes == {}


def test_a_system_that_answers_while_our_medium_is_inserted_is_not_erased() -> None:
    rack = left_at_work("system", writing=True)
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert "is not empty" in caught.value.details[0]
    assert rack.servers["w1"].installs == 0


def test_a_finished_system_that_answers_is_never_erased_however_often_it_is_tried() -> None:
    """A killed run did not hear of its end; somebody switched it on, and it has been in use."""
    rack = left_at_work("system", writing=True)
    label = "app-0123456789ab"
    rack.servers["w1"].label = label
    rack.notes["w1"] = replace(rack.notes["w1"], labels=(label,))
    rack.alive["w1"] = "its host key is not in known_hosts"
    for _again in range(3):
        with pytest.raises(StepNotVerified) as caught:
            rack.image()
        assert "is not empty" in caught.value.details[0]
        assert rack.servers["w1"].installs == 0
        # The command itself cut its power: it does not answer any more.
        rack.alive.pop("w1", None)


@pytest.mark.parametrize(
    ("why", "second"),
    [("w1: the probe exited with 127: no python3", ""), (REFUSED, "http://198.18.7.3/b.iso")],
)
def test_the_power_of_a_machine_that_is_somebodys_is_not_cut(why: str, second: str) -> None:
    rack = left_at_work("half", writing=True)
    rack.alive["w1"] = why
    rack.servers["w1"].second_medium = second
    with pytest.raises(PreflightFailed):
        rack.image()
    assert set(rack.servers["w1"].orders) == {"look"}


@pytest.mark.parametrize("medium", ["", "http://198.18.7.3:1/media/other.iso"])
def test_what_answers_without_our_medium_is_somebodys(medium: str) -> None:
    rack = left_at_work("half", writing=True, medium=medium)
    with pytest.raises(PreflightFailed):
        rack.image()
    assert set(rack.servers["w1"].orders) == {"look"}


def test_by_pxe_no_medium_is_inserted() -> None:
    rack = FakeRack(2)
    rack.image(via="pxe")
    assert set(rack.known) == {"w1", "w2"}
    assert all("insert" not in server.orders for server in rack.servers.values())


def test_a_dry_run_sends_no_order() -> None:
    rack = FakeRack(2)
    assert rack.image(dry_run=True).waiting == ("w1", "w2")
    assert all(set(server.orders) == {"look"} for server in rack.servers.values())


def test_with_no_bmc_at_all_nothing_was_changed() -> None:
    rack = FakeRack(1, {"w1": "unreachable"})
    with pytest.raises(NodeUnreachable):
        rack.image()


def test_what_the_files_lack_is_said_before_any_bmc_is_asked() -> None:
    rack = FakeRack(1)
    rack.site = replace(
        rack.site, nodes=tuple(replace(node, imaging=None) for node in rack.site.nodes)
    )
    with pytest.raises(ConfigError) as caught:
        rack.image()
    assert "imaging" in caught.value.details[0]
    assert rack.servers["w1"].orders == []


def test_an_interrupt_leaves_notes_for_the_next_run() -> None:
    rack = FakeRack(2, {"w1": "silent", "w2": "silent"})
    slept = rack.clock.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        if seconds == 0.5 and len(rack.notes) == 2:
            raise KeyboardInterrupt

    rack.clock.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        rack.image()
    rack.clock.sleep = slept  # type: ignore[method-assign]
    assert set(rack.notes) == {"w1", "w2"}
    for server in rack.servers.values():
        server.fault = ""
    rack.image()
    assert set(rack.known) == {"w1", "w2"}


def test_no_more_servers_than_asked_for_are_under_way() -> None:
    rack = FakeRack(6)
    most = 0

    def count(_name: str, _at: str) -> None:
        nonlocal most
        most = max(most, sum(not note.installed for note in list(rack.notes.values())))

    rack.kill = count
    rack.image(at_once=2)
    assert most == 2
    assert set(rack.known) == set(rack.names)


def test_errors_carry_one_exit_code() -> None:
    assert StepNotVerified.exit_code == ApplianceError.exit_code == 1
