"""The hardware of simulated BMCs, read over TLS by the real adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.hardware import redfish_hardware
from appliance.adapters.hardware.redfish_hardware import RedfishHardware
from appliance.model.checks.hardware.found import Machine
from tests.standins.simulated_bmcs import configured, node, secrets, simulated


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bmcs")


def inspect(folder: Path, tree: str, system: str | None = None, **more: Any) -> Machine | str:
    configuration = configured(tree=f"{tree}.json", changes={}, **more)
    with simulated(folder, configuration) as (server,):
        known = secrets(folder)
        return RedfishHardware(lambda: known, server.server_address[1]).inspect(
            node(bmc_system=system)
        )


@pytest.mark.parametrize(
    ("tree", "system", "slots", "gpus"),
    [
        ("quanta-d43n-3u", None, 32, 4),
        ("gigabyte-g492-zd2", "Self", 32, 8),
        ("tyan-tn83-b8251", None, None, 4),
        ("generic", None, 4, 1),
    ],
)
def test_each_tree_is_read(
    folder: Path, tree: str, system: str | None, slots: int | None, gpus: int | None
) -> None:
    found = inspect(folder, tree, system)
    assert isinstance(found, Machine), found
    assert found.identity.serial
    told = tuple(None if part is None else len(part) for part in (found.dimms, found.gpus))
    assert told == (slots, gpus)


def test_a_collection_that_fails_is_unknown_and_the_rest_is_read(folder: Path) -> None:
    faults = [{"method": "GET", "path": ".*/Memory", "times": 99, "status": 500}]
    found = inspect(folder, "quanta-d43n-3u", faults=faults)
    assert isinstance(found, Machine), found
    assert found.dimms is None
    assert "500" in found.why("dimms")
    assert len(found.cpus or ()) == 2


def test_one_module_that_fails_is_not_a_missing_module(folder: Path) -> None:
    faults = [{"method": "GET", "path": ".*/Memory/DIMM7", "times": 99, "status": 404}]
    found = inspect(folder, "quanta-d43n-3u", faults=faults)
    assert isinstance(found, Machine), found
    assert found.dimms is None
    assert "DIMM7 not found" in found.why("dimms")


def test_a_bmc_that_hangs_ends_in_time_with_a_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redfish_hardware, "SECONDS", 3.0)
    faults = [{"method": "GET", "path": ".*/Processors", "times": 99, "hang": 4.0}]
    found = inspect(folder, "quanta-d43n-3u", faults=faults)
    assert isinstance(found, Machine), found
    assert found.cpus is None
    assert "no complete answer within 3 s" in found.why("cpus")


def test_too_many_resources_end_with_a_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redfish_hardware, "MOST_RESOURCES", 20)
    found = inspect(folder, "quanta-d43n-3u")
    assert isinstance(found, Machine), found
    assert found.dimms is None
    assert found.why("dimms") == "the BMC lists more than 20 resources"


def test_a_node_without_a_bmc_says_so() -> None:
    bare = node()
    bare = type(bare)(**{**bare.__dict__, "bmc_address": None})
    assert RedfishHardware(dict).inspect(bare) == ("the inventory has no bmc_address for it")
