"""What ``node image`` must not do: erase or cut another machine, or trust another's report."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace

import pytest

from appliance.errors import (
    ApplianceError,
    BmcRefused,
    Interrupted,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.orders import BmcMachine
from appliance.model.node.imaging.batch import Note
from appliance.model.node.imaging.seed import Seed
from appliance.model.site.imaging_settings import NodeImaging
from appliance.model.site.settings import Node
from tests.unit.imaging.fake_rack import Batch, FakeBmc, FakeRack, Notes, host_key

LOOKED = {"look"}


def _said(caught: pytest.ExceptionInfo[ApplianceError]) -> str:
    return "\n".join((caught.value.message, *caught.value.details, caught.value.hint or ""))


def _touched(rack: FakeRack) -> set[str]:
    return {name for name, one in rack.servers.items() if set(one.orders) - LOOKED}


def _accepted(serial: str = "SN-w1", at: str = "2024-01-01T00:00:00Z") -> dict[str, Passport]:
    return {"w1": Passport("w1", {"machine": serial}, accepted_at=at)}


@pytest.mark.parametrize("wipe", [(), ("CHASSIS-7",)])
def test_two_bmcs_of_one_serial_are_refused_whatever_wipe_names(wipe: tuple[str, ...]) -> None:
    rack = FakeRack(3)
    rack.servers["w1"].serial = rack.servers["w2"].serial = "CHASSIS-7"
    with pytest.raises(PreflightFailed) as caught:
        rack.image(wipe=wipe)
    assert "its BMC and that of w1 report the same machine: serial CHASSIS-7" in _said(caught)
    assert not _touched(rack)


def test_another_node_of_the_site_is_not_erased_whatever_wipe_names() -> None:
    rack = FakeRack(1)
    passports = {"c1": Passport("c1", {"machine": "SN-w1"})}
    with pytest.raises(PreflightFailed) as caught:
        rack.image(wipe=["SN-w1"], passports=passports)
    assert "this machine is node c1 of this site" in _said(caught)
    assert "--wipe" not in _said(caught)
    assert not _touched(rack)


def test_the_machine_that_was_shown_is_the_one_that_is_installed() -> None:
    rack = FakeRack(1)

    def confirm(_found: object) -> bool:
        rack.servers["w1"].serial = "SN-other"
        return True

    rack.confirm = confirm
    with pytest.raises(Refused, match="changed since the plan was shown"):
        rack.image()
    assert not _touched(rack)


@pytest.mark.parametrize("power", ["On", "PoweringOn", "Paused"])
def test_a_machine_that_is_on_and_not_known_keeps_its_power(power: str) -> None:
    rack = FakeRack(1)
    rack.servers["w1"].power = power
    with pytest.raises(PreflightFailed) as caught:
        rack.image()
    assert "host_vars/w1.yml imaging.machine_serial: SN-w1" in _said(caught)
    assert not _touched(rack)
    rack.site = replace(rack.site, nodes=tuple(_named(one) for one in rack.site.nodes))
    rack.image()
    assert set(rack.known) == {"w1"}


def _named(node: Node) -> Node:
    imaging = NodeImaging(disk_serial=f"DISK-{node.name}", machine_serial=f"SN-{node.name}")
    return replace(node, imaging=imaging)


@pytest.mark.parametrize("serial", ["To Be Filled By O.E.M.", "", "0123456789", "  "])
def test_a_machine_without_a_serial_is_known_by_its_uuid(serial: str) -> None:
    rack = FakeRack(2)
    for name in rack.names:
        rack.servers[name].serial = serial
        rack.servers[name].uuid = f"4c4c4544-0000-0000-0000-0000000000{name[1:]:0>2}"
    rack.image()
    assert set(rack.known) == {"w1", "w2"}


@pytest.mark.parametrize("serial", ["To Be Filled By O.E.M.", ""])
def test_a_machine_without_serial_and_uuid_is_refused(serial: str) -> None:
    rack = FakeRack(2)
    for one in rack.servers.values():
        one.serial = serial
    with pytest.raises(PreflightFailed, match="neither serial nor UUID"):
        rack.image(wipe=[serial])
    assert not _touched(rack)


def test_wipe_that_never_came_to_the_disk_ends_with_its_run() -> None:
    rack = FakeRack(1, {"w1": "rejects"})
    rack.servers["w1"].content = "system"
    with pytest.raises(StepNotVerified):
        rack.image(wipe=["SN-w1"], passports=_accepted())
    rack.servers["w1"].fault = ""
    rack.servers["w1"].orders.clear()
    with pytest.raises(PreflightFailed, match="accepted, and does not answer"):
        rack.image(passports=_accepted())
    assert not _touched(rack)
    assert rack.servers["w1"].content == "system"


@pytest.mark.parametrize("key", ["", host_key("w1")])
def test_a_note_says_nothing_of_a_node_that_was_accepted_since(key: str) -> None:
    rack = FakeRack(1)
    rack.servers["w1"].content = "system"
    rack.notes["w1"] = Note("SN-w1", "DISK-w1", True, key)
    with pytest.raises(PreflightFailed, match="accepted, and does not answer"):
        rack.image(passports=_accepted())
    rack.notes["w1"] = Note("SN-w1", "DISK-w1", True, key, "2023-01-01T00:00:00Z")
    with pytest.raises(PreflightFailed, match="accepted, and does not answer"):
        rack.image(passports=_accepted())
    assert not _touched(rack)


def test_a_run_that_stopped_on_an_accepted_node_goes_on() -> None:
    rack = FakeRack(1, {"w1": "stops"})
    with pytest.raises(StepNotVerified):
        rack.image(wipe=["SN-w1"], passports=_accepted())
    assert rack.notes["w1"].writing
    rack.servers["w1"].fault = ""
    rack.image(passports=_accepted())
    assert set(rack.known) == {"w1"}


def test_a_resumed_run_that_is_killed_early_may_still_be_resumed() -> None:
    rack = FakeRack(1, {"w1": "rejects"})
    rack.notes["w1"] = Note("SN-w1", "DISK-w1", writing=True)
    with pytest.raises(StepNotVerified):
        rack.image()
    assert rack.notes["w1"].writing


def test_what_is_done_has_no_note() -> None:
    rack = FakeRack(1)
    rack.image()
    rack.notes["w1"] = Note("SN-w1", "DISK-w1", True, host_key("w1"))
    rack.image(dry_run=True)
    assert set(rack.notes) == {"w1"}
    assert rack.image().courses["w1"].kind == "qualify"
    assert rack.notes == {}
    assert rack.image().courses["w1"].kind == "done"


def test_a_system_that_was_installed_and_already_boots_is_met_and_not_cut() -> None:
    rack = FakeRack(1)
    server = rack.servers["w1"]
    server.content, server.power = "system", "On"
    rack.alive["w1"] = "its host key is unknown"
    rack.notes["w1"] = Note("SN-w1", "DISK-w1", True, host_key("w1"))
    rack.image()
    assert set(rack.known) == {"w1"}
    assert not {"cut", "insert"} & set(server.orders)


@pytest.mark.parametrize("fault", ["stops", "silent", "rejects", "lies"])
def test_a_server_that_fails_keeps_no_medium_and_no_boot(fault: str) -> None:
    rack = FakeRack(1, {"w1": fault})
    with pytest.raises(StepNotVerified):
        rack.image()
    assert (rack.servers["w1"].medium, rack.servers["w1"].boot) == ("", "")


def test_an_interrupted_server_keeps_no_medium_and_is_recorded() -> None:
    rack = FakeRack(2, {"w2": "silent"})
    slept = rack.clock.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        if seconds == 0.5 and "w1" in rack.known and rack.notes["w1"].installed:
            raise KeyboardInterrupt

    rack.clock.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(Interrupted) as caught:
        rack.image()
    assert rack.servers["w2"].medium == ""
    assert {record.nodes[0]: record.outcome for record in rack.journal.records} == {
        "w1": "verified",
        "w2": "failed",
    }
    assert "for w2 alone" in (caught.value.hint or "")
    assert "appliance hardware qualify w1" in (caught.value.hint or "")


def test_no_order_goes_out_after_the_end() -> None:
    rack = FakeRack(1)
    rack.inserted = lambda: rack.clock.sleep(3 * 3600)
    with pytest.raises(StepNotVerified, match="not installed"):
        rack.image()
    assert "on" not in rack.servers["w1"].orders


def test_a_bmc_that_moves_to_another_machine_gets_no_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rack = FakeRack(1)
    looks = iter(range(100))

    def machine(_self: FakeBmc) -> BmcMachine:
        return BmcMachine("SN-w1" if next(looks) < 2 else "SN-other", power="Off")

    monkeypatch.setattr(FakeBmc, "machine", machine)
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert "reports a machine with serial SN-other, not serial SN-w1" in _said(caught)
    assert not _touched(rack)


def test_two_host_keys_of_one_server_are_a_refusal() -> None:
    rack = FakeRack(1)

    def forged(name: str, at: str) -> None:
        if at == "followed":
            heard = rack.servers[name].heard
            rack.servers[name].heard = replace(heard, rival=True)

    rack.kill = forged
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert "two host keys were reported" in _said(caught)
    assert rack.known == {}


def test_a_bmc_with_nonsense_is_named_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rack = FakeRack(2)
    told = FakeBmc.machine

    def machine(self: FakeBmc) -> BmcMachine:
        if self._server.name == "w2":
            raise RecursionError("nested")
        return told(self)

    monkeypatch.setattr(FakeBmc, "machine", machine)
    with pytest.raises(StepNotVerified, match="1 of 2 servers are not installed: w2"):
        rack.image()


def test_a_failed_clean_up_hides_no_reason() -> None:
    rack = FakeRack(1, {"w1": "stops"})

    def refuse(_self: FakeBmc) -> None:
        raise BmcRefused("w1: 503")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeBmc, "eject", refuse)
        with pytest.raises(StepNotVerified) as caught:
            rack.image()
    assert "its installer stopped: curtin failed" in _said(caught)


def test_a_full_disk_of_this_machine_leaves_no_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    rack = FakeRack(1)
    kept = Notes.keep

    def keep(self: Notes, name: str, note: Note) -> None:
        if note.host_key:
            raise OSError(errno.ENOSPC, "No space left on device", f"imaging/{name}.json")
        kept(self, name, note)

    monkeypatch.setattr(Notes, "keep", keep)
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert "No space left on device" in _said(caught)
    assert rack.servers["w1"].orders[-1] == "eject"
    assert rack.servers["w1"].medium == ""


OTHERS = "http://192.0.2.77:8000/token/installer.iso"


@pytest.mark.parametrize("power", ["On", "Off"])
def test_a_server_with_the_medium_of_another_command_is_refused_by_name(power: str) -> None:
    rack = FakeRack(2)
    rack.servers["w1"].medium, rack.servers["w1"].power = OTHERS, power
    with pytest.raises(PreflightFailed) as caught:
        rack.image()
    assert f"w1: medium: found Cd: inserted: {OTHERS}" in _said(caught)
    assert "another command may be installing it" in _said(caught)
    assert "--wipe SN-w1" in _said(caught)
    assert not _touched(rack)
    assert rack.servers["w1"].medium == OTHERS


def test_the_operator_may_say_that_the_medium_is_left_over() -> None:
    rack = FakeRack(1)
    rack.servers["w1"].medium = OTHERS
    rack.image(wipe=["SN-w1"])
    assert rack.servers["w1"].content == "system"


def test_a_medium_that_a_run_of_ours_left_is_no_others() -> None:
    rack = FakeRack(1)
    server = rack.servers["w1"]
    server.medium = OTHERS
    rack.notes["w1"] = Note("SN-w1", "DISK-w1")
    rack.image()
    assert server.content == "system"


def test_a_medium_that_comes_during_the_question_is_not_replaced() -> None:
    rack = FakeRack(1)
    server = rack.servers["w1"]

    def meanwhile(_found: object) -> bool:
        server.medium = OTHERS
        return True

    rack.confirm = meanwhile
    with pytest.raises(Refused) as caught:
        rack.image()
    assert "another command may be installing it" in _said(caught)
    assert (server.medium, set(server.orders) - LOOKED) == (OTHERS, set())


def test_a_medium_that_comes_at_the_same_moment_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rack = FakeRack(2)
    server, offer = rack.servers["w1"], Batch.offer

    def meanwhile(batch: Batch, seeds: Sequence[Seed]) -> str:
        server.medium = OTHERS
        return offer(batch, seeds)

    monkeypatch.setattr(Batch, "offer", meanwhile)
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert f"w1: Cd: inserted: {OTHERS}: another command installs it" in _said(caught)
    assert (server.medium, set(server.orders) - LOOKED) == (OTHERS, set())
    assert rack.servers["w2"].content == "system"


@pytest.mark.parametrize("wipe", [(), ("SN-w1",)], ids=["without", "with --wipe"])
def test_a_server_that_answers_by_its_turn_keeps_its_power(
    monkeypatch: pytest.MonkeyPatch, wipe: tuple[str, ...]
) -> None:
    """Another command installed it meanwhile: its medium is gone, and its system is up."""
    rack = FakeRack(2)
    server, offer = rack.servers["w1"], Batch.offer

    def meanwhile(batch: Batch, seeds: Sequence[Seed]) -> str:
        server.content, server.power = "system", "On"
        rack.alive["w1"] = "w1: its host key is not in known_hosts"
        return offer(batch, seeds)

    monkeypatch.setattr(Batch, "offer", meanwhile)
    with pytest.raises(StepNotVerified) as caught:
        rack.image(wipe=wipe)
    assert "w1: it answers now: w1: its host key is not in known_hosts" in _said(caught)
    assert (server.power, set(server.orders) - LOOKED) == ("On", set())
    assert rack.servers["w2"].content == "system"
