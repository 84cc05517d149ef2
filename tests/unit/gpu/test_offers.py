"""What pods should be able to request on a node, by MIG strategy, time slicing and health."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.components.gpu.offers import (
    DeviceRequest,
    cards_of,
    offer_faults,
    requests_for,
    sharing_of,
)
from appliance.model.site.runai_settings import Gpu
from appliance.model.state.cluster.cluster import ClusterNode
from tests import samples

DATA = Path(__file__).parents[2] / "data/gpu/offers.yml"
CASES = yaml.safe_load(DATA.read_text(encoding="utf-8"))
NODE = samples.site(gpu={}).workers[0]


def named(values: dict[str, Any]) -> dict[str, Any]:
    return {f"nvidia.com/{key}": value for key, value in values.items()}


def machine(case: dict[str, Any]) -> Any:
    count, silent = case.get("pci", 2), case.get("silent", 0)
    document = samples.bare(NODE)
    document["gpus"] = [
        {
            "vendor_id": "0x10de",
            "device_id": "0x20b0",
            "address": f"0000:0{index}:00.0",
            "uuid": None if index < silent else f"GPU-{index}",
        }
        for index in range(count)
    ]
    return samples.node_facts({"w1": document})["w1"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_what_is_offered_is_judged_by_strategy(case: dict[str, Any]) -> None:
    member = ClusterNode(
        "w1",
        ready=True,
        labels=named(case.get("labels", {})),
        devices=named(case["devices"]),
        devices_there=named(case.get("there", case["devices"])),
    )
    wish = sharing_of(Gpu.model_validate(case.get("gpu", {})), "w1")
    said = list(offer_faults(cards_of(machine(case)), wish, member))
    assert said == case.get("says", [])


@pytest.mark.parametrize(
    ("labels", "free", "asks"),
    [
        ({}, {"gpu": 8}, {"gpu": 8}),
        ({}, {"gpu": 0}, {}),
        ({"gpu.replicas": "4"}, {"gpu": 8}, {"gpu": 1}),
        ({}, {"gpu.shared": 8}, {"gpu.shared": 1}),
        (
            {"mig-1g.5gb.count": "56", "mig-1g.5gb.replicas": "1"},
            {"mig-1g.5gb": 56, "gpu": 1},
            {"gpu": 1, "mig-1g.5gb": 16},
        ),
        (
            {"mig-1g.5gb.count": "7", "mig-1g.5gb.replicas": "2"},
            {"mig-1g.5gb": 14},
            {"mig-1g.5gb": 1},
        ),
        ({"gpu.replicas": "many"}, {"gpu": 8}, {"gpu": 1}),
    ],
)  # fmt: skip
def test_a_test_pod_asks_for_all_that_is_free_and_for_one_slice(
    labels: dict[str, str], free: dict[str, int], asks: dict[str, int]
) -> None:
    found = requests_for(named(labels), named(free))
    assert found == tuple(DeviceRequest(name, count) for name, count in named(asks).items())


def test_gpus_of_several_models_are_not_compared_with_one_another() -> None:
    document = samples.bare(NODE)
    document["gpus"] = [
        {"vendor_id": "0x10de", "device_id": device, "address": device, "uuid": device}
        for device in ("0x20b0", "0x2235")
    ]
    cards = cards_of(samples.node_facts({"w1": document})["w1"])
    assert (cards.count, cards.alike) == (2, False)
