"""The hardware of simulated BMCs, read over TLS by the real adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.hardware import redfish_hardware
from appliance.adapters.hardware.redfish_hardware import RedfishHardware
from appliance.cli.commands.hardware.reader import catalogue_of
from appliance.model.checks.hardware.findings import Verdict
from appliance.model.checks.hardware.found import Machine
from appliance.model.checks.hardware.reading import Reading
from appliance.model.site.settings import Node
from appliance.workflows.hardware.qualify import Beside, qualify
from tests.standins.simulated_bmcs import (
    TREES,
    configured,
    node,
    own_system,
    secrets,
    simulated,
)


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


class ByBmc:
    """Reads the hardware as ``hardware qualify --by bmc`` does."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self._folder, self._tree = folder, tree

    def read(self, nodes: Sequence[Node], *_: Any) -> Mapping[str, Reading]:
        system = Path(own_system(json.loads(self._tree.read_text()))).name
        found = inspect(self._folder, str(self._tree.with_suffix("")), system)
        return {one.name: Reading(None, found) for one in nodes}


@pytest.mark.parametrize("path", TREES, ids=lambda path: path.stem)
def test_every_fixture_is_inspected_and_judged(path: Path, folder: Path) -> None:
    """Those that somebody adds as the page of recordings says, too."""
    catalogue = catalogue_of(None)
    servers = {name: one for name, one in catalogue.models.items() if not name.startswith("lab/")}
    assert servers, "the premise"
    reader = ByBmc(folder, path)
    nodes = [node(hardware=name) for name in servers]
    for one in nodes:
        (found,) = qualify([one], catalogue, reader, "bmc", Beside(trials=()))
        assert isinstance(found.reading.bmc, Machine), found.reading.bmc
        assert found.reading.bmc.identity.serial or found.reading.bmc.identity.uuid
        assert found.findings
        # A BMC alone never tells all that is asked.
        assert found.verdict in (Verdict.FAIL, Verdict.UNKNOWN)
        unexplained = [f for f in found.findings if f.verdict is Verdict.FAIL and not f.action]
        assert unexplained == []


def test_a_bmc_whose_tls_is_slow_is_read(folder: Path) -> None:
    found = inspect(folder, "generic", quirks={"tls_seconds": 0.3})
    assert isinstance(found, Machine), found


def test_a_bmc_whose_tls_begins_too_late_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redfish_hardware, "SECONDS", 2.0)
    found = inspect(folder, "generic", quirks={"tls_seconds": 30.0})
    assert isinstance(found, str)
    assert found
