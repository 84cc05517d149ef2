"""One pod left behind never blocks step ``runai``: the workload is judged, by its owner."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from appliance.model.bundle.release.runai_versions import LINES, trusting
from appliance.model.components.runai.pods import pods_in_the_way, without_the_authority
from appliance.model.state.cluster.pods import Pod
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


AGENT = {"owner": ["ReplicaSet", "runai-agent-abc"], "hash": "abc", "ready": True}
BACKEND = {
    "owner": ["ReplicaSet", "runai-backend-backend-abc"], "hash": "abc", "ready": True,
    "namespace": "runai-backend",
}  # fmt: skip


@pytest.mark.parametrize("version", [v for v, line in LINES.items() if not line.lacks])
@pytest.mark.parametrize("said", [AGENT, BACKEND], ids=["agent", "backend"])
def test_every_supported_version_gives_the_ca_to_what_talks_to_the_backend(
    version: tuple[int, int], said: dict[str, Any]
) -> None:
    named = trusting(version)
    assert [p.name for p in without_the_authority([pod("one", said)], named)] == ["one"]
    given = pod("one", {**said, "config_maps": ("appliance-ca",)})
    assert list(without_the_authority([given], named)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"owner": ["ReplicaSet", "runai-scheduler-abc"]},
        {"namespace": "runai-backend"},
        {"ready": False, "phase": "Failed"},
        {"owner": None},
    ],
    ids=["another workload", "another namespace", "ended", "bare"],
)
def test_others_need_no_ca(changed: dict[str, Any]) -> None:
    other = pod("other", {**AGENT, **changed})
    assert list(without_the_authority([other], trusting((2, 7)))) == []


def test_nothing_is_given_to_a_version_that_nobody_knows() -> None:
    assert trusting((2, 17)) == ()
    assert trusting(None) == ()
