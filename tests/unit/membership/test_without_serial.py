"""Boards whose vendor filled in no serial: the same machine by its UUID, its board or its NICs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ClusterError, PreflightFailed
from appliance.model.node.accepted import accepted_of
from appliance.model.node.baseline import Acceptance, differences, parse_passport, passport_of
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.fencing import FencingEvidence, FencingProof, check_fenced, same_machine
from appliance.model.node.membership import MemberRecord, Removal, parse_record
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import MachineIdentity, identity, identity_on
from appliance.model.state.plan import Refusal
from tests import samples
from tests.unit.membership import test_joining, test_node_remove
from tests.unit.membership.test_ownership import CA, half_reset, refused

NODE = samples.site().node("w2")
UUID = "4c4c4544-0042-3510-8051-b4c04f4d3732"
OTHER_UUID = "4c4c4544-0042-3510-8051-b4c04f4d9999"
MAC, NEW_MAC = "b8:59:9f:00:00:01", "b8:59:9f:00:00:02"
BOARD = identity(None, UUID, "BRD-1", None, [MAC])
Document = dict[str, Any]


def shows(document: Document, machine: MachineIdentity) -> Document:
    """Let a machine tell of itself what an identity holds."""
    document["dmi"] = {
        "serial": machine.serial or "System Serial Number",
        "board_serial": machine.board,
        "chassis_serial": machine.chassis,
    }
    document["host"]["product_uuid"] = machine.uuid
    macs = machine.macs or (None,)
    document["nics"] = [
        {**document["nics"][0], "name": f"eth{n}", "permanent_mac": mac}
        for n, mac in enumerate(macs)
    ]
    return document


def blank(machine: MachineIdentity) -> NodeFacts:
    """A machine with nothing of a member on it."""
    return NodeFacts(shows(samples.bare(NODE), machine))


def node(machine: MachineIdentity, **more: Any) -> dict[str, Any]:
    """What is to be changed of a Node object so that it speaks of a machine."""
    return {"serial": machine.serial, "annotations": machine.annotations(), **more}


class Removing(test_node_remove.Bench):
    """A rack in which one worker's board tells no serial, as its Node object knows."""

    def accept(self, name: str, machine: MachineIdentity) -> None:
        shows(self.rack.documents[name], machine)
        self.member(name, **node(machine))

    def without_ca(self, name: str) -> None:
        """Nobody can tell by the CA whose member it is."""
        for one in ("cp1", name):
            self.rack.documents[one]["kubernetes"]["pki"] = [{"path": CA, "error": "timed out"}]

    @property
    def vouched(self) -> str:
        return str(self.rack.plays[-1].inventory["all"]["vars"]["node_reset_vouched"])


def test_the_same_board_empty_is_proof_that_nothing_acts_under_the_name() -> None:
    member = ClusterNode("w2", ready=True)
    for seen in (BOARD, replace(BOARD, macs=(NEW_MAC,)), replace(BOARD, board=None)):
        found = check_fenced(FencingEvidence("w2", member, blank(seen), BOARD))
        assert isinstance(found, FencingProof), seen
    assert isinstance(
        check_fenced(FencingEvidence("w2", member, blank(identity()), BOARD)), Refusal
    )


@pytest.mark.parametrize(
    ("seen", "is_refused"),
    [
        (BOARD, False),
        (replace(BOARD, macs=(NEW_MAC,)), False),
        (identity(None, UUID, "BRD-2"), False),
        (identity(None, OTHER_UUID, "BRD-2", None, [MAC]), True),
        (identity(macs=[NEW_MAC]), False),
        (identity(), False),
    ],
)
def test_other_hardware_under_an_old_name_must_be_said_and_a_new_nic_is_none(
    seen: MachineIdentity, is_refused: bool
) -> None:
    evidence = FencingEvidence("w2", None, blank(seen), BOARD)
    found = same_machine(evidence, replaces=False)
    assert (found is not None) == is_refused
    if found:
        assert found.seen == f"a machine with serial unknown, UUID {OTHER_UUID}, board BRD-2"
        assert f"UUID {UUID}, board BRD-1" in found.expected
    assert same_machine(evidence, replaces=True) is None


@pytest.mark.parametrize(
    ("report", "proves"),
    [
        (BmcReport(None, powered_off=True, uuid=UUID.upper()), True),
        (BmcReport("Default string", powered_off=True, uuid=UUID), True),
        (BmcReport("Default string", powered_off=True), False),
        (BmcReport(None, powered_off=True, uuid=OTHER_UUID), False),
        (BmcReport(None, powered_off=False, uuid=UUID), False),
    ],
)
def test_a_bmc_is_known_by_the_uuid_and_never_by_a_placeholder(
    report: BmcReport, proves: bool
) -> None:
    assert report.confirms_off(BOARD) is proves
    nameless = identity("Default string")
    assert not BmcReport("Default string", powered_off=True).confirms_off(nameless)


def test_a_worker_is_emptied_by_its_uuid_and_board_where_its_ca_tells_nothing() -> None:
    bench = Removing()
    bench.accept("w2", BOARD)
    bench.without_ca("w2")
    bench.rack.documents["w2"]["nics"][0]["permanent_mac"] = NEW_MAC
    bench.remove("w2")
    assert bench.vouched == "machine"
    record = parse_record(bench.archive.documents["members/w2.json"])
    assert record.removed is not None
    assert (record.removed.serial, record.removed.machine) == (None, BOARD)


@pytest.mark.parametrize(
    ("accepted", "seen"),
    [
        (identity(macs=[MAC]), identity(macs=[MAC])),
        (BOARD, replace(BOARD, board="BRD-2")),
        (BOARD, identity(macs=[MAC])),
        (identity(None, None, None, "CH-1"), identity(None, None, None, "CH-1")),
        (identity(), BOARD),
    ],
)
def test_nics_a_chassis_or_half_of_the_board_empty_no_machine(
    accepted: MachineIdentity, seen: MachineIdentity
) -> None:
    bench = Removing()
    bench.accept("w2", accepted)
    shows(bench.rack.documents["w2"], seen)
    bench.without_ca("w2")
    assert "proves that it is w2" in refused(bench, "w2")


def test_what_another_machine_shows_too_empties_none() -> None:
    bench = Removing()
    bench.accept("w2", identity(None, UUID))
    shows(bench.rack.documents["w1"], identity("SN-w1", UUID))
    bench.without_ca("w2")
    assert "proves that it is w2" in refused(bench, "w2")


def test_a_serial_that_two_machines_show_does_not_let_the_uuid_overrule_it() -> None:
    bench = Removing()
    bench.accept("w2", identity("SN-w1", UUID))
    shows(bench.rack.documents["w2"], identity("SN-w2", UUID))
    bench.without_ca("w2")
    assert "identity" in refused(bench, "w2")


def test_a_removal_that_was_killed_goes_on_by_the_board_in_its_record() -> None:
    bench = Removing(masters=3)
    bench.accept("cp3", BOARD)
    bench.rack.fail["node_reset"] = ClusterError("cp3: killed")
    with pytest.raises(ClusterError):
        bench.remove("cp3")
    bench.rack.fail.clear()
    half_reset(bench.rack.documents["cp3"])
    bench.remove("cp3")
    assert bench.vouched == "removal"


def test_a_removal_record_of_an_earlier_version_is_read_without_its_placeholder() -> None:
    text = '{"node": "w2", "removed": {"by": "a", "at": "b", "serial": "%s"}}'
    old = parse_record(text % "SN-w2").removed
    nobody = parse_record(text % "Default string").removed
    assert old is not None
    assert nobody is not None
    assert (old.machine, nobody.machine) == (identity("SN-w2"), MachineIdentity())
    bench = Removing(masters=3)
    shows(bench.rack.documents["cp3"], identity())
    bench.rack.documents["cp3"]["dmi"]["serial"] = "Default string"
    bench.member("cp3", serial=None)
    record = MemberRecord("cp3", replace(nobody, reset=False))
    bench.archive.documents[record.document] = record.text()
    half_reset(bench.rack.documents["cp3"])
    assert "etcd data" in refused(bench, "cp3")


def test_a_wiped_worker_joins_again_by_its_board_while_its_node_is_still_ready() -> None:
    bench = test_joining.Bench()
    bench.wipe("w2", **node(BOARD, ready=True))
    shows(bench.rack.documents["w2"], BOARD)
    bench.rejoin("w2")
    (said,) = bench.shown
    assert said == (
        f"w2: the same machine (serial unknown, UUID {UUID}, board BRD-1) answers, and it is empty",
    )
    given = bench.variables("workers", "w2")["kubeadm_worker_machine_annotations"]
    assert identity_on(given, None) == BOARD


def test_another_board_does_not_join_under_the_name_unless_it_is_said() -> None:
    bench = test_joining.Bench()
    bench.wipe("w2", **node(BOARD))
    shows(bench.rack.documents["w2"], identity(None, OTHER_UUID, "BRD-2"))
    with pytest.raises(PreflightFailed, match=f"serial unknown, UUID {OTHER_UUID}"):
        bench.rejoin("w2")
    bench.add("w2", replace="w2", sworn=True)


ACCEPTED = Acceptance("ada@laptop", "now")


def test_a_passport_holds_the_board_and_one_of_before_still_holds() -> None:
    member = ClusterNode("w2", ready=True)
    passport = passport_of(NODE, blank(BOARD), member, ACCEPTED)
    assert parse_passport(passport.text()).machine == BOARD
    assert differences(passport, blank(BOARD), member) == ()
    (found, *_) = differences(passport, blank(identity(None, OTHER_UUID, "BRD-1")), member)
    assert found.sentence() == f"product-uuid: found {OTHER_UUID}, expected {UUID}"
    old = replace(passport, identity=MachineIdentity())
    assert differences(old, blank(BOARD), member) == ()
    older = replace(old, facts={**old.facts, "machine": "System Serial Number"})
    assert differences(older, blank(BOARD), member) == ()


def test_a_board_is_no_difference_where_the_serial_tells_that_it_is_the_machine() -> None:
    member = ClusterNode("w2", ready=True)
    was, now = (identity("SN-w2", uuid) for uuid in (UUID, OTHER_UUID))
    passport = passport_of(NODE, blank(was), member, ACCEPTED)
    assert differences(passport, blank(now), member) == ()


@pytest.mark.parametrize(
    ("passport", "removed", "expected"),
    [
        (identity("SN-1"), identity("SN-2"), "SN-1"),
        (identity(), identity("SN-2"), "SN-2"),
        (None, None, "SN-liar"),
        (identity(), identity("Default string"), "SN-liar"),
    ],
)
def test_a_node_object_is_believed_only_where_there_is_no_document(
    passport: MachineIdentity | None, removed: MachineIdentity | None, expected: str
) -> None:
    gone = Removal("a", "b", serial=removed.serial, identity=removed) if removed else None
    member = ClusterNode("w2", ready=True, serial="SN-liar")
    found = accepted_of("w2", member, passport, gone)
    assert found.machine.serial == expected
    assert bool(found.doubt) == bool(found.hint) == (expected != "SN-liar")


def test_a_kubelets_own_claim_is_reported_and_allows_no_reset() -> None:
    """The Node speaks of the machine that answers; the passport of the one that was accepted."""
    bench = Removing()
    bench.accept("w2", identity("SN-x"))
    bench.without_ca("w2")
    reset = bench.remove("w2", dry_run=True).plan.reset
    assert reset is not None, "without a passport the Node is believed"
    assert reset.vouched == "serial"
    bench.passport = identity("SN-w2", UUID)
    words = refused(bench, "w2")
    assert "a Ready Node: a machine is running under this name" in words
    assert "its Node object names a machine with serial SN-x" in words
    assert "appliance node passport w2 --acknowledge" in words


def test_the_doubt_is_among_what_a_removal_says() -> None:
    bench = Removing()
    bench.member("w2", serial="SN-liar")
    bench.passport = identity("SN-w2")
    done = bench.remove("w2", dry_run=True)
    assert "its Node object names a machine with serial SN-liar" in done.plan.notices[0].text
    assert done.plan.machine.serial == "SN-w2"


def test_the_doubt_is_reported_before_a_rejoin_and_does_not_prevent_it() -> None:
    passport = passport_of(NODE, blank(identity("SN-w2")), ClusterNode("w2", ready=True), ACCEPTED)
    bench = test_joining.Bench()
    bench.wipe("w2", serial="SN-liar")
    bench.write_down(passport)
    bench.rejoin("w2")
    proof, doubt = bench.shown[0]
    assert proof == "w2: the same machine (serial SN-w2) answers, and it is empty"
    assert doubt.startswith("w2: its Node object names a machine with serial SN-liar")
