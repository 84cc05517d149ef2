"""Of each kind of worker one is in the lab; what tells kinds apart is data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.upgrade.rehearsal.kinds import one_of_each
from tests import samples
from tests.unit.rehearsal.scene import MACHINE, MEMBER, PODS, facts, handmade

CHANGES: dict[str, Mapping[str, Any]] = {
    "another kubelet": {"member": replace(MEMBER, kubelet="v1.23.6")},
    "another runtime": {"member": replace(MEMBER, runtime="containerd://1.6.8")},
    "another operating system": {"machine": replace(MACHINE, operating_system="ubuntu-22.04")},
    "another model of GPU": {"machine": replace(MACHINE, gpus={"0x20b0": 8})},
    "fewer GPUs": {"machine": replace(MACHINE, gpus={"0x2330": 4})},
    "a taint": {"member": replace(MEMBER, taints=("gpu=true:NoSchedule",))},
    "a label": {"member": replace(MEMBER, labels={"pool": "b"})},
    "another client of the storage": {"machine": replace(MACHINE, storage_client="none")},
    "another machine": {"machine": replace(MACHINE, product="D52BV-2U")},
    "a hand-made setting": handmade(PODS),
}


def chosen(workers: int, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    nodes = samples.site(1, workers).workers
    kept = {node.name: facts(node, **changes.get(node.name, {})) for node in nodes}
    return {one.node: one.others for one in one_of_each(nodes, kept)}


def test_equal_workers_are_of_one_kind_and_the_others_are_named() -> None:
    assert chosen(4, {}) == {"w1": ("w2", "w3", "w4")}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_an_upgrade_may_treat_otherwise_makes_another_kind(change: Mapping[str, Any]) -> None:
    assert chosen(4, {"w3": change}) == {"w1": ("w2", "w4"), "w3": ()}


SAME: dict[str, Mapping[str, Any]] = {
    "another time": {"machine": replace(MACHINE, seen="2026-10-01T00:00:00+00:00")},
    "more memory": {"machine": replace(MACHINE, memory_bytes=1 << 40)},
    "taken out of service": {"member": replace(MEMBER, unschedulable=True)},
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_an_upgrade_treats_the_same_makes_no_other_kind(change: Mapping[str, Any]) -> None:
    assert chosen(2, {"w2": change}) == {"w1": ("w2",)}


def labelled(**labels: str) -> dict[str, Any]:
    return {"member": replace(MEMBER, labels=labels)}


def test_a_label_that_names_each_worker_makes_no_kinds() -> None:
    slots = {name: labelled(slot=name, pool="a") for name in ("w1", "w2", "w3")}
    assert chosen(3, slots) == {"w1": ("w2", "w3")}


def test_of_two_workers_a_label_with_two_values_makes_two_kinds() -> None:
    pools = {name: labelled(pool=name) for name in ("w1", "w2")}
    assert chosen(2, pools) == {"w1": (), "w2": ()}


def test_a_label_that_one_worker_lacks_is_no_name() -> None:
    slots = {name: labelled(slot=name) for name in ("w1", "w2")}
    assert chosen(3, slots) == {"w1": (), "w2": (), "w3": ()}
