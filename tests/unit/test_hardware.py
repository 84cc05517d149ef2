"""Hardware files are whole and sourced; facts are compared, and never guessed from."""

import re
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.local.hardware_models import (
    load_configurations,
    load_gpus,
    load_hardware,
    load_role_minima,
)
from appliance.errors import ConfigError
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.hardware_models import Dmi, HardwareModel, below_minimum, match
from appliance.model.state.facts.hardware_shown import FirmwareMinimum, Shows
from tests.contract import tree

GIB = 1024**3
WORKER: dict[str, Any] = {
    "schema": 1,
    "dmi": {"vendor": "Quanta", "product": "Board"},
    "cpu": {
        "model": "AMD EPYC 7543 32-Core Processor",
        "vendor": "AuthenticAMD",
        "sockets": 2,
        "threads": 128,
    },
    "memory": {
        "total_bytes": 256 * GIB,
        "dimm_slots": 32,
        "dimms": [
            {"locator": f"DIMM{n}", "size_bytes": 32 * GIB, "speed_mts": 3200} for n in range(8)
        ],
    },
    "nics": [{"name": "eth0", "driver": "mlx5_core", "speed_mbps": 25000}],
    "gpus": [{"address": f"0000:{n}"} for n in range(4)],
    "disks": [{"name": "nvme0n1", "size_bytes": 960 * 1000**3}],
}


def findings(model: HardwareModel, **sections: Any) -> list[tuple[str, str]]:
    return [(f.check, f.severity) for f in match(model, NodeFacts({**WORKER, **sections}))]


@pytest.fixture(scope="module")
def models() -> dict[str, HardwareModel]:
    return dict(load_hardware())


def test_the_guides_machines_are_there(models: dict[str, HardwareModel]) -> None:
    assert set(models) == {
        "quanta/s5sp",
        "quanta/d43n-3u",
        "tyan/tn83-b8251",
        "gigabyte/g492-zd2",
        "lab/container",
    }


def test_every_fact_has_a_source_and_every_source_a_fact(models: dict[str, HardwareModel]) -> None:
    for name, model in models.items():
        facts = {"product"}
        if model.also_called:
            facts.add("also_called")
        for part in ("platform", "reference", "dmi"):
            values = getattr(model, part).model_dump()
            facts |= {f"{part}.{key}" for key, value in values.items() if value not in (None, ())}
        assert {source.fact for source in model.sources} == facts, name


def test_no_dmi_string_is_invented(models: dict[str, HardwareModel]) -> None:
    assert {model.dmi for model in models.values()} == {Dmi()}


def test_a_machine_as_delivered_is_only_not_verified(models: dict[str, HardwareModel]) -> None:
    assert findings(models["quanta/d43n-3u"]) == [("model", "info")]
    (finding,) = match(models["quanta/d43n-3u"], NodeFacts(WORKER))
    assert "model not verified" in finding.seen


def test_recorded_dmi_strings_are_compared_exactly(models: dict[str, HardwareModel]) -> None:
    dmi = Dmi(vendor="Quanta", product="Board")
    recorded = models["quanta/d43n-3u"].model_copy(update={"dmi": dmi})
    assert findings(recorded) == []
    other = {"vendor": "Quanta", "product": "board"}
    assert findings(recorded, dmi=other) == [("model", "error")]
    assert findings(recorded, dmi={"vendor": None, "product": None}) == [("model", "info")] * 2


@pytest.mark.parametrize(
    ("section", "value", "expected"),
    [
        ("cpu", {**WORKER["cpu"], "vendor": "GenuineIntel"}, ("cpu", "error")),
        ("cpu", {**WORKER["cpu"], "sockets": 4}, ("sockets", "error")),
        ("cpu", {**WORKER["cpu"], "sockets": 1}, ("sockets", "warning")),
        ("cpu", {**WORKER["cpu"], "model": "AMD EPYC 7313 Processor"}, ("cpu", "warning")),
        ("memory", {**WORKER["memory"], "dimm_slots": 16}, ("memory", "error")),
        (
            "memory",
            {**WORKER["memory"], "dimms": WORKER["memory"]["dimms"][:7]},
            ("memory", "warning"),
        ),
        (
            "memory",
            {
                "dimm_slots": 32,
                "dimms": [
                    {"locator": "A", "size_bytes": 16 * GIB, "speed_mts": 3200},
                    *WORKER["memory"]["dimms"][1:],
                ],
            },
            ("memory", "warning"),
        ),
        (
            "memory",
            {
                "dimm_slots": 32,
                "dimms": [
                    {"locator": "A", "size_bytes": 32 * GIB, "speed_mts": 2400},
                    *WORKER["memory"]["dimms"][1:],
                ],
            },
            ("memory", "warning"),
        ),
        ("memory", {"dimm_slots": None, "dimms": []}, ("memory", "info")),
        ("nics", [{"driver": "igb", "speed_mbps": 1000}], ("nics", "warning")),
        ("nics", [{"driver": "mlx5_core", "speed_mbps": 10000}], ("nics", "warning")),
        ("gpus", [{"address": str(n)} for n in range(5)], ("gpus", "error")),
        ("gpus", [], ("gpus", "warning")),
    ],
)
def test_what_differs_is_found(
    models: dict[str, HardwareModel], section: str, value: Any, expected: tuple[str, str]
) -> None:
    found = findings(models["quanta/d43n-3u"], **{section: value})
    assert found == [("model", "info"), expected] or sorted(found) == sorted(
        [("model", "info"), expected]
    )


def test_what_could_not_be_read_is_no_difference(models: dict[str, HardwareModel]) -> None:
    found = match(models["quanta/d43n-3u"], NodeFacts({"schema": 1}))
    assert {finding.severity for finding in found} <= {"info", "warning"}


def test_eight_single_width_gpus_fit_the_hsgp1_and_nine_do_not(
    models: dict[str, HardwareModel],
) -> None:
    gpus = [{"address": str(n)} for n in range(9)]
    memory = {"dimm_slots": 16, "dimms": WORKER["memory"]["dimms"]}
    tyan = models["tyan/tn83-b8251"]
    assert ("gpus", "error") not in findings(tyan, gpus=gpus[:8], memory=memory)
    assert ("gpus", "error") in findings(tyan, gpus=gpus, memory=memory)


def test_an_sxm_board_carries_all_of_its_gpus(models: dict[str, HardwareModel]) -> None:
    gpus = [{"address": str(n)} for n in range(7)]
    assert ("gpus", "warning") in findings(models["gigabyte/g492-zd2"], gpus=gpus)


def test_the_master_is_an_intel_machine(models: dict[str, HardwareModel]) -> None:
    model = "Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz"
    cpu = {"model": model, "vendor": "GenuineIntel", "sockets": 2}
    dimms = [{"locator": str(n), "size_bytes": 32 * GIB, "speed_mts": 2400} for n in range(4)]
    memory = {"dimm_slots": 16, "dimms": dimms}
    assert findings(models["quanta/s5sp"], cpu=cpu, memory=memory, gpus=[]) == [("model", "info")]


def test_a_stand_in_is_not_compared(models: dict[str, HardwareModel]) -> None:
    assert findings(models["lab/container"]) == []


def test_role_minima_are_the_guides() -> None:
    minima = load_role_minima()
    system = minima["system_nodes"]
    assert (system.cpus, system.memory_mb, system.disk_gb) == (4, 8000, 120)
    assert below_minimum("system_nodes", system, NodeFacts(WORKER)) == []
    small = {
        "schema": 1,
        "cpu": {"threads": 2},
        "memory": {"total_bytes": 4 * GIB},
        "disks": [{"size_bytes": 60 * 1000**3}],
    }
    found = below_minimum("system_nodes", system, NodeFacts(small))
    assert [finding.check for finding in found] == ["cpus", "memory", "disk"]
    assert "at least 4 CPUs for system_nodes" in found[0].expected


def test_adding_a_model_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "acme" / "x1.yml"
    path.parent.mkdir()
    path.write_text("---\nvendor: Acme\nproduct: X1\npurpose: a test\n", encoding="utf-8")
    assert list(load_hardware(tmp_path)) == ["acme/x1"]
    path.write_text("---\nvendor: Acme\nproduct: X1\nsockets: 2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"x1\.yml does not describe hardware") as refused:
        load_hardware(tmp_path)
    assert any("purpose" in line for line in refused.value.details)
    path.write_text("vendor: [", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_hardware(tmp_path)


@pytest.mark.parametrize(
    ("part", "of"), [("nic", None), ("gpu", None), ("disk", None), ("bios", "x"), ("bmc", "x")]
)
def test_a_minimum_of_firmware_says_of_which_part(part: str, of: str | None) -> None:
    told = {"part": part, "of": of, "least": "1"}
    with pytest.raises(ValueError, match="need `of`"):
        FirmwareMinimum.model_validate(told)


def test_every_gpu_that_a_model_names_is_in_the_table(models: dict[str, HardwareModel]) -> None:
    gpus = load_gpus()
    named = {
        (name, slots.form)
        for model in models.values()
        for slots in model.platform.gpus
        for name in slots.models
    }
    assert named == {(name, card.form) for name, card in gpus.items()}
    ids = [one for card in gpus.values() for one in card.pci_ids]
    assert len(set(ids)) == len(ids), "one id, one card"
    assert all(re.fullmatch(r"10de:[0-9a-f]{4}", one) for one in ids)
    assert {card.source.split(",")[0][:5] for card in gpus.values()} == {"guide"}


def test_the_guides_configurations_are_of_models_that_are_there(
    models: dict[str, HardwareModel],
) -> None:
    found = load_configurations()
    assert {one.hardware for each in found.values() for one in each.servers} == set(models) - {
        "lab/container"
    }
    assert [one.role for one in found["lab as a service"].servers] == ["master", "worker"]


def test_the_readmes_model_is_a_whole_file(tmp_path: Path) -> None:
    text = (tree.ROOT / "hardware/README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```\n(---\n.*?)```", text, re.DOTALL)
    path = tmp_path / "acme" / "x1.yml"
    path.parent.mkdir()
    path.write_text(example, encoding="utf-8")
    model = load_hardware(tmp_path)["acme/x1"]
    told = {f"platform.{key}" for key in model.platform.model_dump(exclude_defaults=True)}
    assert {one.fact for one in model.sources} == {"product", *told}


def test_nobody_has_read_a_machine_of_the_guide(models: dict[str, HardwareModel]) -> None:
    assert {model.shows for model in models.values()} == {Shows()}
