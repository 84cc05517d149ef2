"""``node image`` qualifies what it installed, and a second run what was not qualified."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import Interrupted, NodeUnreachable, NotHealthy, StepNotVerified
from appliance.model.node.baseline import Passport
from tests.unit.imaging.fake_rack import FakeRack

EMPTY_SLOT = {"dimms.C1": {"slot": "C1", "size_bytes": 0}}


def orders(rack: FakeRack) -> dict[str, list[str]]:
    """What BMCs were ordered; looks are none."""
    return {n: [o for o in one.orders if o != "look"] for n, one in rack.servers.items()}


def verdict(rack: FakeRack, name: str) -> str:
    """The verdict in the record that ``hardware qualify`` keeps."""
    return str(json.loads(rack.hardware.kept[f"hardware/{name}.json"])["verdict"])


def test_every_installed_server_is_qualified_and_its_record_is_kept() -> None:
    rack = FakeRack(3)
    done = rack.image()
    assert rack.hardware.asked == [("w1", "w2", "w3")]
    assert [(one.node, one.verdict.value) for one in done.qualifications] == [
        (name, "pass") for name in rack.names
    ]
    assert [verdict(rack, name) for name in rack.names] == ["pass"] * 3
    assert rack.notes == {}
    said = [one[2] for one in rack.observer.said if one[:2] == ("task", "qualify")]
    assert set(said) == set(rack.names)


def test_a_server_that_does_not_pass_is_installed_and_the_exit_code_is_5() -> None:
    rack = FakeRack(3)
    rack.hardware.changes["w2"] = EMPTY_SLOT
    with pytest.raises(NotHealthy, match="w2: dimm:C1: found empty") as caught:
        rack.image()
    assert caught.value.exit_code == 5
    assert "appliance hardware qualify w2" in (caught.value.hint or "")
    assert sorted(rack.done.installed) == list(rack.names)
    assert [record.outcome for record in rack.journal.records] == ["verified"] * 3
    before = orders(rack)
    with pytest.raises(NotHealthy):
        rack.image()
    assert orders(rack) == before
    assert rack.hardware.asked[-1] == ("w2",)
    assert verdict(rack, "w2") == "fail"
    rack.hardware.changes.clear()
    assert rack.image().courses["w2"].kind == "qualify"
    assert verdict(rack, "w2") == "pass"
    assert orders(rack) == before
    looked = len(rack.hardware.asked)
    assert {one.kind for one in rack.image().courses.values()} == {"done"}
    assert len(rack.hardware.asked) == looked


def test_a_server_that_failed_is_1_and_the_others_are_qualified() -> None:
    rack = FakeRack(3, {"w3": "rejects"})
    rack.hardware.changes["w2"] = EMPTY_SLOT
    with pytest.raises(StepNotVerified) as caught:
        rack.image()
    assert caught.value.exit_code == 1
    assert any(line.startswith("not qualified: w2: dimm:C1") for line in caught.value.details)
    assert rack.hardware.asked == [("w1", "w2")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dimms": None, "unknown": {"dimms": "needs root"}}, "found unknown: needs root"),
        ("no answer on port 22", "nothing was read: no answer on port 22"),
    ],
)
def test_what_is_unknown_is_no_pass(change: Any, said: str) -> None:
    rack = FakeRack(1)
    rack.hardware.changes["w1"] = change
    with pytest.raises(NotHealthy, match=said):
        rack.image()
    assert rack.notes["w1"].installed


@pytest.mark.parametrize("hardware", [None, "acme/unknown"])
def test_a_server_without_a_known_model_is_installed_and_not_qualified(
    hardware: str | None,
) -> None:
    rack = FakeRack(2)
    nodes = tuple(
        replace(one, hardware=hardware) if one.name == "w1" else one for one in rack.site.nodes
    )
    rack.site = replace(rack.site, nodes=nodes)
    with pytest.raises(NotHealthy, match="w1: its host_vars name") as caught:
        rack.image()
    assert "write `hardware: VENDOR/MODEL`" in (caught.value.hint or "")
    assert sorted(rack.done.installed) == ["w1", "w2"]
    assert verdict(rack, "w2") == "pass"


def test_ctrl_c_while_it_qualifies_installs_nothing_again() -> None:
    rack = FakeRack(2)

    def ctrl_c(_name: str) -> None:
        raise KeyboardInterrupt

    rack.hardware.before = ctrl_c
    with pytest.raises(Interrupted, match="are installed, and not qualified"):
        rack.image()
    before = orders(rack)
    rack.hardware.before = lambda _name: None
    rack.image()
    assert orders(rack) == before
    assert [verdict(rack, name) for name in rack.names] == ["pass"] * 2


def test_an_older_record_of_a_reinstalled_machine_is_no_pass() -> None:
    rack = FakeRack(1)
    rack.image()
    rack.hardware.changes["w1"] = EMPTY_SLOT

    def lost(_name: str) -> None:
        raise OSError("no space left on device")

    rack.hardware.before = lost
    with pytest.raises(OSError, match="no space"):
        rack.image(wipe=["SN-w1"])
    assert verdict(rack, "w1") == "pass"
    rack.hardware.before = lambda _name: None
    with pytest.raises(NotHealthy):
        rack.image()
    assert verdict(rack, "w1") == "fail"


def test_a_server_that_somebody_else_installed_is_qualified_until_it_is_accepted() -> None:
    rack = FakeRack(1)
    rack.image()
    rack.hardware.kept.clear()
    assert rack.image(dry_run=True).courses["w1"].kind == "qualify"
    assert rack.hardware.asked == [("w1",)]
    passports = {"w1": Passport("w1", {"machine": "SN-w1"})}
    assert rack.image(passports=passports).courses["w1"].kind == "done"
    assert rack.image(unread="no API").courses["w1"].kind == "done"
    assert rack.hardware.asked == [("w1",)]
    rack.image()
    assert rack.hardware.asked == [("w1",), ("w1",)]


def test_a_record_of_another_machine_is_no_pass() -> None:
    rack = FakeRack(1)
    rack.image()
    text = rack.hardware.kept["hardware/w1.json"]
    rack.hardware.kept["hardware/w1.json"] = text.replace('"SN-w1"', '"SN-other"')
    assert rack.image().courses["w1"].kind == "qualify"


def test_bmcs_that_do_not_answer_are_4_after_the_others_were_qualified() -> None:
    rack = FakeRack(2)
    rack.image()
    rack.hardware.kept.clear()
    rack.servers["w2"].fault = "unreachable"
    with pytest.raises(NodeUnreachable):
        rack.image()
    assert rack.hardware.asked[-1] == ("w1",)
