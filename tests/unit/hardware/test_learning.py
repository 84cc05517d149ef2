"""What one machine showed is what the next ones are compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.findings import Verdict
from appliance.model.checks.hardware.found import Machine
from appliance.model.checks.hardware.learning import counted, learnt
from appliance.model.checks.hardware.qualification import qualify
from appliance.model.state.facts.hardware_models import HardwareModel
from appliance.workflows.hardware.qualify import Catalogue, expectations
from tests import samples
from tests.unit.hardware.made_up import MODEL, expectation, machine

# A model of which the house's file says nothing but what it is.
BARE = HardwareModel.model_validate(
    {"vendor": "Acme", "product": "X1", "purpose": "tests",
     "platform": {"gpus": [{"form": "double_width", "count": 4, "models": ["A40"]}]}}
)  # fmt: skip


def taken(one: Machine) -> dict[str, Any]:
    return learnt(BARE, one, "2026-01-01", "9.9.9")


def after(one: Machine) -> Expectation:
    model = HardwareModel.model_validate({**BARE.model_dump(), **taken(one)})
    return replace(expectation(), model=model)


def wrong(wanted: Expectation, one: Machine) -> dict[str, str]:
    told = qualify(wanted, one)
    return {f.fact: f.verdict.value for f in told if f.verdict in (Verdict.FAIL, Verdict.UNKNOWN)}


def test_a_machine_is_as_itself() -> None:
    assert wrong(after(machine()), machine()) == {}
    assert counted(taken(machine())) == "2 GPUs, 4 modules, 1 disks"


def test_what_is_missing_or_other_in_the_next_machine_is_found() -> None:
    change = {
        "gone": ["gpus.0000:c1:00.0", "cpus.1", "nics.ens1f1"],
        "dimms.C1": {"slot": "C1", "size_bytes": 0},
        "dimms.D1.size_bytes": 16 << 30,
        "disks": [],
    }
    assert wrong(after(machine()), machine(change)) == {
        "gpus": "fail",
        "cpus": "fail",
        "nics": "fail",
        "dimm:C1": "fail",
        "memory:modules": "fail",
        "dimm:D1": "fail",
        "disks": "fail",
    }


def test_what_was_not_read_is_not_learnt() -> None:
    change = {
        "gpus.0000:c1:00.0.pci_id": None,
        "cpus.1.model": None,
        "dimms.C1.size_bytes": None,
        "disks.nvme0n1.size_bytes": None,
        "nics": None,
    }
    shows = after(machine(change)).model.shows
    assert (shows.gpus, shows.gpu_ids, shows.cpu_models, shows.nic_ids) == (2, None, None, None)
    assert (shows.dimms_in, shows.dimms_gib, shows.disks_gb) == (None, None, None)
    assert counted(taken(machine(change))) == "2 GPUs, ? modules, ? disks"
    assert counted(taken(machine({"gpus": None}))).startswith("? GPUs")


def test_the_site_names_the_number_of_gpus_of_a_node() -> None:
    nodes = [replace(node, hardware=MODEL, gpus=3) for node in samples.site(workers=1).nodes]
    found = expectations(nodes, Catalogue({MODEL: expectation().model}, {}))
    assert {one.gpus_delivered() for one in found.values()} == {(3, "as its host_vars say")}
