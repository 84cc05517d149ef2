"""Made-up machines as data give exactly the expected draft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.errors import ConfigError
from appliance.model.checks.discovery.draft import DraftNode, draft, host_vars
from appliance.model.checks.discovery.found import Found, found_by_bmc, found_by_ssh
from appliance.model.checks.discovery.targets import targets
from appliance.model.checks.hardware.found import Machine
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
