"""Made-up machines as data give exactly the expected draft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.errors import ConfigError
from appliance.model.checks.discovery.draft import DraftNode, draft, host_vars
from appliance.model.checks.discovery.found import Found, FoundDisk, found_by_bmc, found_by_ssh
from appliance.model.checks.discovery.imaging import remark
from appliance.model.checks.discovery.targets import targets
from appliance.model.checks.hardware.found import Machine, check_machine
from appliance.model.state.facts.facts import SCHEMA, NodeFacts
from tests.unit.discovery.made_up import machine, profiles, wishes

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "data" / "discovery" / "cases.yml").read_text(encoding="utf-8")
)


def _line(node: DraftNode) -> str:
    words = [node.group, str(node.address), node.model, str(node.bmc) if node.bmc else None]
    return " ".join(word for word in words if word)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
@pytest.mark.parametrize("step", [1, -1])
def test_machines_give_exactly_their_draft(case: dict[str, Any], step: int) -> None:
    found = [machine(word, **(told or {})) for word, told in case["machines"].items()][::step]
    asked = wishes(case.get("wishes", {}))
    if "refused" in case:
        with pytest.raises(ConfigError) as refused:
            draft(found, profiles(), asked)
        assert case["refused"] in refused.value.message
        assert list(refused.value.details) == case.get("details", [])
        assert refused.value.hint
        return
    drafted = draft(found, profiles(), asked)
    assert {node.name: _line(node) for node in drafted.nodes} == case["nodes"]
    assert list(drafted.notices) == case.get("notices", [])


def test_what_a_node_gets_in_its_file() -> None:
    found = [
        machine("198.51.100.11", serial="A", product="S5SP", mac="52:54:00:00:00:01"),
        machine("bmc:203.0.113.11", serial="A"),
    ]
    (node,) = draft(found, profiles(), wishes({})).nodes
    assert host_vars(node, "ab" * 32) == {
        "address": "198.51.100.11/24",
        "hardware": "quanta/s5sp",
        "bmc_address": "203.0.113.11",
        "bmc_fingerprint": "ab" * 32,
        "mac": "52:54:00:00:00:01",
    }


def _disks(*told: FoundDisk) -> tuple[str | dict[str, str] | None, str]:
    """What a machine with these disks, as its BMC tells, gets: the section, and the comment."""
    found = [machine("bmc:203.0.113.11", serial="SN-11", product="S5SP", disks=told)]
    (node,) = draft(found, profiles(), wishes({"plan": "198.51.100.11/24"})).nodes
    section = host_vars(node, "ab" * 32).get("imaging")
    return section, "\n".join(remark(node.machine, node.by_bmc))


def test_the_only_disk_of_a_bare_server_gets_its_system() -> None:
    section, comment = _disks(FoundDisk("S4EWNX0R501234"))
    assert section == {"disk_serial": "S4EWNX0R501234", "machine_serial": "SN-11"}
    assert comment == ""


def test_of_several_disks_a_person_chooses() -> None:
    section, comment = _disks(
        FoundDisk("DISK-1", 480 * 10**9, "MadeUp 480"), FoundDisk("0123"), FoundDisk(None)
    )
    assert section is None
    assert comment == (
        "imaging:\n"
        "  # The disk for the system; node image erases all on it. Keep one line:\n"
        '  disk_serial: "DISK-1"  # 480 GB, MadeUp 480\n'
        '  disk_serial: "0123"\n'
        "  # 1 more that is not listed\n"
        '  machine_serial: "SN-11"'
    )


def test_no_disk_that_a_raid_controller_may_hide_is_chosen() -> None:
    section, comment = _disks(FoundDisk("DISK-1", alone=False))
    assert section is None
    assert 'disk_serial: "DISK-1"' in comment
    assert "sees an array" in comment


@pytest.mark.parametrize("told", [(), (FoundDisk(None),)])
def test_without_a_serial_of_a_disk_the_way_to_find_it_is_told(told: tuple[FoundDisk]) -> None:
    section, comment = _disks(*told)
    assert section is None
    assert "lsblk -d -o NAME,SERIAL" in comment
    assert 'machine_serial: "SN-11"' in comment


def test_a_server_that_runs_tells_its_disk_and_its_bmc_the_machine() -> None:
    found = [
        machine(
            "198.51.100.11", serial="A", uuid="U", product="S5SP", disks=(FoundDisk("D-LSBLK"),)
        ),
        machine("bmc:203.0.113.11", serial="A", disks=(FoundDisk("D-1"), FoundDisk("D-2"))),
    ]
    (node,) = draft(found, profiles(), wishes({})).nodes
    # One letter is no serial of a machine.
    assert host_vars(node, "ab" * 32)["imaging"] == {"disk_serial": "D-LSBLK"}
    (alone,) = draft(found[:1], profiles(), wishes({})).nodes
    assert "imaging" not in host_vars(alone, None)
    assert remark(alone.machine, alone.by_bmc) == ()


def test_disks_of_bmc_and_probe_are_read_with_care() -> None:
    (bmc, ssh) = targets(["bmc:203.0.113.1", "198.51.100.1"])
    drives = [{"name": "1", "serial": "DISK-1", "size_bytes": 10, "transport": "sas"},
              {"name": "2", "serial": "STICK-1", "transport": "usb"}]  # fmt: skip
    document: dict[str, Any] = {"schema": 1, "kind": "hardware", "source": "redfish",
                                "identity": {}, "disks": drives}  # fmt: skip
    for raid, alone in (([], True), (None, False)):
        read = found_by_bmc(bmc, check_machine({**document, "raid": raid}))
        assert read.disks == (FoundDisk("DISK-1", 10, None, alone=alone),)
    facts = {"schema": SCHEMA, "disks": [{"serial": "a b"}, {"serial": 7}, {"serial": "0000"}]}
    told = found_by_ssh(ssh, NodeFacts(facts), has_key=False).disks
    assert told == (FoundDisk(None),) * 3
    assert found_by_ssh(ssh, NodeFacts({"schema": SCHEMA}), has_key=False).disks is None


HOSTILE = ["\x1b[2J", "x" * 101, "a\nb: c", "\u202e", 7, None, ["x"], {}, "", " "]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_no_plain_text_or_number_is_unknown(value: Any) -> None:
    (target,) = targets(["198.51.100.11"])
    facts = {
        "schema": SCHEMA,
        "dmi": {"vendor": value, "product": value, "serial": value if value != 7 else "\x00"},
        "cpu": {"threads": True},
        "memory": {"total_bytes": -1},
        "disks": [{"size_bytes": "1"}],
        "nics": [{"addresses": [value, "198.51.100.11/24"], "mac": value}, {"addresses": value}],
    }
    if not isinstance(value, str | None):
        facts["dmi"] = {"vendor": value, "product": value}
    found = found_by_ssh(target, NodeFacts(facts), has_key=False)
    assert (found.vendor, found.product, found.serial, found.mac) == (None, None, None, None)
    assert (found.cpus, found.memory_bytes, found.disk_bytes, found.gpus) == (None,) * 4
    assert found.prefix == 24


def test_a_placeholder_is_no_serial_and_missing_lists_are_unknown() -> None:
    (target,) = targets(["bmc:203.0.113.1"])
    document = {"schema": 1, "kind": "hardware", "source": "redfish",
                "identity": {"serial": "To be filled by O.E.M.", "product": "S5SP"}}  # fmt: skip
    found = found_by_bmc(target, Machine.model_validate(document))
    assert (found.serial, found.gpus, found.cpus, found.memory_bytes) == (None,) * 4
    assert found.product == "S5SP"


def test_a_thousand_machines_are_each_compared_with_those_that_tell_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = [f"198.18.{n // 200}.{n % 200 + 1}" for n in range(1000)]
    found = [machine(place, serial=f"S{n}", uuid=f"U{n}") for n, place in enumerate(places)]
    found += [machine(f"bmc:{place}", serial=f"S{n}") for n, place in enumerate(places)]
    compared = []
    is_also = Found.is_also

    def counted(one: Found, other: Found) -> bool:
        compared.append(one)
        return is_also(one, other)

    monkeypatch.setattr(Found, "is_also", counted)
    roles = dict.fromkeys(places[1:], "cpu_workers")
    drafted = draft(found, profiles(), wishes({"roles": roles, "system_nodes": 0}))
    assert [node.bmc is not None for node in drafted.nodes] == [True] * 1000
    assert len(compared) == 1000
