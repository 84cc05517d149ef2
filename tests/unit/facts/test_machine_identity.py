"""The same machine, another one, or nobody can tell: on boards without a serial, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from appliance.model.documents.typed_json import typed
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import (
    Likeness,
    MachineIdentity,
    identity,
    identity_of,
    identity_on,
    likeness,
    without_shared,
)
from tests import samples

UUID = "4c4c4544-0042-3510-8051-b4c04f4d3732"
OTHER_UUID = "4c4c4544-0042-3510-8051-b4c04f4d9999"
A, B, C = (f"b8:59:9f:00:00:0{n}" for n in (1, 2, 3))
FULL = {"uuid": UUID, "board": "BRD-1", "chassis": "CH-1", "macs": (A, B)}


@dataclass(frozen=True)
class Case:
    """What was accepted, what is seen, and what follows."""

    what: str
    accepted: Mapping[str, object]
    seen: Mapping[str, object]
    expected: Likeness


CASES = [
    Case("the serial decides", {"serial": "S-7", "uuid": UUID}, {"serial": "S-7"}, "same"),
    Case("a new board with the old serial", {"serial": "S-7", **FULL}, {"serial": "S-7"}, "same"),
    Case("another serial", {"serial": "S-7", **FULL}, {"serial": "T-7", **FULL}, "another"),
    Case("a serial was lost by a firmware update", {"serial": "S-7", **FULL}, FULL, "same"),
    Case("a serial was filled in later", FULL, {"serial": "S-7", **FULL}, "same"),
    Case("everything agrees", FULL, FULL, "same"),
    Case("all its NICs were swapped", FULL, {**FULL, "macs": (C,)}, "same"),
    Case("its NICs are gone", FULL, {**FULL, "macs": ()}, "same"),
    Case("UUID alone", {"uuid": UUID}, {"uuid": UUID}, "same"),
    Case("board alone", {"board": "B-7"}, {"board": "B-7"}, "same"),
    Case("another UUID and board", FULL, {"uuid": OTHER_UUID, "board": "X-7"}, "another"),
    Case("another machine with its NICs", FULL, {"uuid": OTHER_UUID, "macs": (A, B)}, "another"),
    Case("a new board in the chassis", FULL, {**FULL, "uuid": OTHER_UUID, "board": "X-7"},
         "unknown"),
    Case("the board in a new chassis", FULL, {**FULL, "chassis": "X-7"}, "unknown"),
    Case("a UUID of the batch", {"uuid": UUID, "board": "A-7"}, {"uuid": UUID, "board": "B-7"},
         "unknown"),
    Case("the chassis of four machines", {"chassis": "C-7"}, {"chassis": "C-7"}, "unknown"),
    Case("another chassis", {"chassis": "C-7"}, {"chassis": "D-7"}, "another"),
    Case("another chassis, the same NICs", {"chassis": "C-7", "macs": (A,)},
         {"chassis": "D-7", "macs": (A,)}, "unknown"),
    Case("the same NICs", {"macs": (A, B)}, {"macs": (A, B, C)}, "nics"),
    Case("chassis and NICs", {"chassis": "C-7", "macs": (A,)}, {"chassis": "C-7", "macs": (A,)},
         "nics"),
    Case("one of two NICs was swapped", {"macs": (A, B)}, {"macs": (A, C)}, "unknown"),
    Case("other NICs are no other machine", {"macs": (A,)}, {"macs": (C,)}, "unknown"),
    Case("nothing in common to compare", {"uuid": UUID}, {"board": "B-7", "macs": (A,)}, "unknown"),
    Case("nothing is told", {}, {}, "unknown"),
    Case("nothing was accepted", {}, {"serial": "S-7", **FULL}, "unknown"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_each_kind_is_compared_with_its_own_and_nics_alone_make_no_other_machine(
    case: Case,
) -> None:
    accepted, seen = (identity(**part) for part in (case.accepted, case.seen))  # type: ignore[arg-type]
    assert likeness(accepted, seen) == case.expected


def test_a_firmware_placeholder_is_not_part_of_an_identity() -> None:
    found = identity(
        "Default string",
        "03000200-0400-0500-0006-000700080009",
        "To be filled by O.E.M.",
        "0123456789",
        ["00:00:00:00:00:00", "FF:FF:FF:FF:FF:FF", "80:00:02:08:fe:80:00:00", "", "nonsense"],
    )
    assert found == MachineIdentity()
    assert not found.is_told
    assert found.words() == "serial unknown"


def test_an_identity_is_read_from_a_probes_document() -> None:
    document = samples.bare(samples.site().node("w1"))
    document["dmi"] = {"serial": "Default string", "board_serial": "BRD", "chassis_serial": " "}
    document["host"]["product_uuid"] = UUID.upper()
    document["nics"] = [
        {"name": "eth0", "mac": A, "permanent_mac": B.upper()},
        {"name": "bond0", "kind": "bond", "mac": A, "permanent_mac": None},
        {"name": "old", "mac": C},
    ]
    assert identity_of(NodeFacts(document)) == MachineIdentity(None, UUID, "BRD", None, (B,))


def test_a_node_object_tells_it_again_and_only_where_there_is_no_serial() -> None:
    machine = MachineIdentity(None, UUID, "BRD", "CH", (A, B))
    assert identity_on(machine.annotations(), None) == machine
    assert MachineIdentity("S-7", UUID, "BRD", "CH", (A,)).annotations() == {}


@pytest.mark.parametrize("value", ["x" * 1001, "[" * 100_000, "a\nb", "\x1b[2J", "None", ""])
def test_what_a_kubelet_writes_without_sense_is_not_told(value: str) -> None:
    keys = ("product-uuid", "board-serial", "chassis-serial", "macs")
    assert not identity_on({f"appliance.dev/{key}": value for key in keys}, value).is_told


def test_more_nics_than_any_machine_has_are_cut() -> None:
    many = [f"b8:59:9f:00:{n // 256:02x}:{n % 256:02x}" for n in range(1000)]
    found = identity(macs=many)
    assert len(found.macs) == 64
    assert typed(json.loads(json.dumps(vars(found))), MachineIdentity) == found


def test_what_another_machine_shows_too_proves_nothing() -> None:
    machine = identity("S-7", UUID, "BRD", "CH", [A, B])
    other = identity("T-7", UUID, None, "CH", [B])
    assert without_shared(machine, [other]) == identity("S-7", None, "BRD", None, [A])
    assert without_shared(machine, []) == machine


def test_the_words_name_what_it_is_recognised_by() -> None:
    assert identity("S-7", UUID).words() == "serial S-7"
    assert identity(None, UUID, "BRD", "CH", [A]).words() == (
        f"serial unknown, UUID {UUID}, board BRD, chassis CH"
    )
    assert identity(macs=[A]).words() == f"serial unknown, NICs {A}"
