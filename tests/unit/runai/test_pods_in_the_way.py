"""One pod left behind never blocks step ``runai``: the workload is judged, by its owner."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from appliance.model.components.runai.pods import pods_in_the_way
from appliance.model.state.pods import Pod
from tests.contract import tree

CASES: list[dict[str, Any]] = yaml.safe_load(
    (tree.ROOT / "tests/data/runai/pods_in_the_way.yml").read_text()
)


def pod(name: str, said: dict[str, Any]) -> Pod:
    told = dict(said)
    owner = told.pop("owner", None)
    ready = told.pop("ready", False)
    labels = {"pod-template-hash": told.pop("hash")} if "hash" in told else {}
    place = told.pop("namespace", "runai")
    return Pod(place, name, owner=tuple(owner) if owner else None, ready=ready, labels=labels,
               **told)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_pods_in_the_way_are_those_of_the_case(case: dict[str, Any]) -> None:
    pods = [pod(name, said) for name, said in case["pods"].items()]
    assert [found.name for found in pods_in_the_way(pods)] == case["in_the_way"]
