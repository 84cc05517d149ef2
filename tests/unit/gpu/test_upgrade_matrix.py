"""NVIDIA's matrix, and the judgement before the first change: cases as data."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from appliance.adapters.local.content import list_releases, load_release
from appliance.model.bundle.release.gpu_matrix import BRANCHES, branch_of, pair_fault, step_fault
from appliance.model.bundle.release.gpu_operator_versions import TESTED
from appliance.model.components.gpu.operator import DRIVER_IMAGES
from appliance.model.site.runai_settings import Runai
from appliance.model.state.observed import Observed
from appliance.model.upgrade.evidence import BundleEvidence, Silence
from appliance.model.upgrade.gpu.gates import GpuEvidence, gpu_gates
from appliance.model.upgrade.gpu.observed import GpuNode, GpuSituation
from appliance.model.upgrade.gpu.plan import Open, order_of, plan_gpu_upgrade
from appliance.model.upgrade.gpu.target import Target, target_of
from appliance.model.upgrade.points.gate import Gate
from tests import samples

WHOLE = BundleEvidence("k8s-1.23.5-r1", mirrored=True)


@pytest.mark.parametrize("release", list_releases())
def test_nvidia_names_the_pair_of_every_release(release: str) -> None:
    versions = load_release(release).versions
    assert versions.gpu_operator
    assert versions.nvidia_driver
    assert pair_fault(versions.gpu_operator, f"{versions.nvidia_driver}.0") == ""


@pytest.mark.parametrize(
    ("operator", "driver", "fault"),
    [
        ("22.9.2", "535.183.06", ""),
        ("v22.9.2", "450.216.04", ""),
        # As a machine with an H100 had it.
        ("25.10.1", "580.159.04", ""),
        ("22.9.2", "418.226.00", "driver 418.226.00, too old for GPU Operator 22.9.2"),
        ("24.6.1", "525.60.13", "driver 525.60.13, too old for GPU Operator 24.6.1"),
        ("22.9.2", "550.54.15", "driver 550.54.15, which NVIDIA does not name for GPU Operator"),
        ("23.9.1", "515.86.01", "driver 515.86.01, which NVIDIA does not name for GPU Operator"),
        ("31.1.0", "535.183.06", "GPU Operator 31.1.0, whose drivers are not known"),
        ("22.9.2", "unknown", "driver unknown, whose branch cannot be read"),
        ("22.9.2", "", "driver , whose branch cannot be read"),
    ],
)
def test_a_pair_is_in_the_matrix_or_is_refused(operator: str, driver: str, fault: str) -> None:
    found = pair_fault(operator, driver)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


@pytest.mark.parametrize(
    ("now", "to", "fault", "cure"),
    [
        ("22.9.0", "22.9.2", "", ""),
        ("22.9.2", "22.9.2", "", ""),
        ("22.9.2", "23.3.2", "", ""),
        ("1.11.1", "22.9.2", "", ""),
        ("22.9.2", "23.6.0", "GPU Operator 22.9.2, from which NVIDIA does not upgrade", "23.3"),
        ("22.9.2", "22.9.1", "GPU Operator 22.9.2, newer than 22.9.1", "is not downgraded"),
        ("23.3.2", "22.9.2", "GPU Operator 23.3.2, newer than 22.9.2", "is not downgraded"),
        ("22.9.2", "31.1.0", "GPU Operator 31.1, which is not known", "newer version of this tool"),
        ("22.9.2", "main", "GPU Operator of version main", "appliance status"),
    ],
)
def test_an_operator_goes_one_major_at_a_time_and_never_back(
    now: str, to: str, fault: str, cure: str
) -> None:
    found, hint = step_fault(now, to)
    assert found.startswith(fault)
    assert cure in hint
    assert bool(found) == bool(fault)


def test_the_lines_of_the_matrix_are_in_the_order_of_their_versions() -> None:
    numbers = [tuple(int(part) for part in line.split(".")) for line in BRANCHES]
    assert numbers == sorted(numbers)
    assert all(list(named) == sorted(set(named)) for named in BRANCHES.values())
    assert branch_of("535.183.06") == 535


def target(**changes: Any) -> Target:
    return replace(Target("r", "22.9.2", "c4" * 32, "host", "535.183.06", "535.183.06"), **changes)


def situation(*drivers: str, operator: str = "22.9.2", **changes: Any) -> GpuSituation:
    nodes = {
        f"w{n}": GpuNode(f"w{n}", driver=driver, **changes) for n, driver in enumerate(drivers, 1)
    }
    return GpuSituation(nodes, operator=operator, kubernetes=dict.fromkeys(nodes, "v1.23.5"))


@pytest.mark.parametrize(
    ("now", "drivers", "to", "order"),
    [
        # The new operator takes the old driver.
        ("22.9.2", ("525.60.13",), {"operator": "23.3.2"}, "operator first"),
        # It does not, and the old operator takes the new driver.
        ("23.3.2", ("515.65.01",), {"operator": "23.6.0"}, "drivers first"),
        # Neither does.
        ("23.3.2", ("450.216.04",), {"operator": "23.6.0", "driver": "550.54.15"}, ""),
        # A container's driver is named in the operator's values.
        ("23.3.2", ("515.65.01",), {"operator": "23.6.0", "mode": "container"}, ""),
        # What is of the target already does not count.
        ("23.3.2", ("535.183.06",), {"operator": "23.6.0"}, "operator first"),
        ("22.9.2", (), {"operator": "23.3.2"}, "operator first"),
    ],
)
def test_the_order_follows_from_the_matrix(
    now: str, drivers: tuple[str, ...], to: dict[str, Any], order: str
) -> None:
    assert order_of(target(**to), situation(*drivers, operator=now)) == order


def test_drivers_come_first_where_the_matrix_says_so() -> None:
    found = situation("515.65.01", "535.183.06", operator="23.3.2")
    still_open = Open(operator=("cp1: old",), leader="cp1", services="cp1")
    plan = plan_gpu_upgrade(target(operator="23.6.0"), found, still_open)
    assert [(step.kind, step.nodes) for step in plan.steps] == [
        *(("node", ("w1",)), ("operator", ("cp1",))),
    ]
    assert (plan.order, plan.proved) == ("drivers first", ("w2",))


def test_a_restart_is_announced_only_where_a_driver_has_to_be_replaced() -> None:
    found = situation("525.60.13", "", "535.183.06", wanted={"toolkit": "2"})
    steps = plan_gpu_upgrade(target(), found, Open()).steps
    assert [(step.nodes[0], step.reboots) for step in steps] == [
        *(("w1", True), ("w2", False), ("w3", False)),
    ]
    assert "it restarts" in steps[0].disturbs
    assert steps[1].why[0] == "w2: driver is not loaded, not 535.183.06"
    assert steps[2].why == ("w3: toolkit is absent, not 2",)
    container = plan_gpu_upgrade(target(mode="container"), found, Open()).steps
    assert not any(step.reboots for step in container)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"fabric_manager": "525.60.13"}, "fabric manager is 525.60.13, not 535.183.06"),
        ({"fabric_manager": ""}, "fabric manager is absent, not 535.183.06"),
        ({"fabric_manager": "535.183.06", "manager_runs": False}, "does not run at every boot"),
        ({"fabric_manager": "535.183.06", "manager_runs": True}, ""),
    ],
)
def test_a_fabric_manager_has_the_drivers_version(node: dict[str, Any], words: str) -> None:
    one = GpuNode("w1", driver="535.183.06", nvswitches=True, **node)
    found = " ".join(one.reasons(target()))
    assert words in found
    assert bool(found) == bool(words)


def judged(found: GpuSituation, gpu: dict[str, Any] | None = None, **changes: Any) -> list[Gate]:
    desired = samples.desired(samples.site(1, 2, gpu=gpu or {}))
    assert desired.manifest is not None
    own = target_of(desired)
    assert own is not None
    if images := changes.pop("without_images", ()):
        kept = {n: d for n, d in desired.manifest.images.items() if n.split(":")[0] not in images}
        desired = replace(desired, manifest=replace(desired.manifest, images=kept))
    if changes.pop("runai", False):
        settings = desired.site.settings.model_copy(update={"runai": Runai()})
        desired = replace(desired, site=replace(desired.site, settings=settings))
    evidence = GpuEvidence(changes.pop("bundle", WHOLE))
    observed = Observed({}, samples.cluster(desired))
    wanted = replace(own, **changes)
    return [g for g in gpu_gates(desired, observed, wanted, found, evidence) if g.stops]


def test_a_rack_that_is_well_is_a_go() -> None:
    assert judged(situation("525.60.13", "525.60.13", operator="22.9.0")) == []


OLD = situation("525.60.13", operator="22.9.0")


@pytest.mark.parametrize(
    ("found", "changes", "name", "words"),
    [
        (situation("550.54.15"), {}, "driver", "w1: driver 550.54.15, newer than 535.183.06"),
        (situation("535.216.01"), {}, "driver", "w1: driver 535.216.01, newer than 535.183.06"),
        (situation("525.60.13", is_ours=False), {}, "driver", "from no package of a bundle"),
        (OLD, {"driver": "550.54.15", "fabric_manager": "550.54.15"}, "matrix", "not name"),
        (OLD, {"driver": "418.226.00"}, "matrix", "too old for GPU Operator 22.9.2"),
        (situation("525.60.13", operator="23.3.2"), {}, "gpu-operator", "newer than 22.9.2"),
        (OLD, {"operator": "24.6.1"}, "gpu-operator", "NVIDIA does not upgrade to 24.6.1"),
        (OLD, {"operator": "25.3.4"}, "kubernetes", "runs on 1.29 to 1.33, not on 1.23"),
        (OLD, {"operator": "1.11.1"}, "kubernetes", "whose range of Kubernetes is not known"),
        (situation("525.60.13", operator=""), {}, "gpu-operator", "no GPU Operator runs"),
        (OLD, {"operator": "1.11.1", "runai": True}, "runai", "1.11 publish nvidia.com/gpu.memory"),
        (
            situation("525.60.13", nvswitches=True),
            {"fabric_manager": "525.60.13"},
            "fabric-manager",
            "w1: fabric manager 525.60.13 in the bundle",
        ),
        (
            situation("525.60.13", nvswitches=True),
            {"fabric_manager": ""},
            "fabric-manager",
            "w1: none in the bundle",
        ),
        (
            OLD,
            {"gpu": {"driver": "container"}, "without_images": DRIVER_IMAGES},
            "bundle",
            "a bundle without image driver, image k8s-driver-manager",
        ),
        (OLD, {"without_images": ("cuda",)}, "bundle", "a bundle without image cuda"),
        (OLD, {"bundle": Silence("no bundle was given")}, "bundle", "no bundle was given"),
        (OLD, {"bundle": BundleEvidence("r", ("bin/helm: broken",))}, "bundle", "bin/helm: broken"),
        (situation("525.60.13", seen=False), {}, "nodes", "w1: no facts"),
        (situation("525.60.13", ready=False), {}, "nodes", "w1: not Ready"),
        (situation("525.60.13", member=False), {}, "nodes", "w1: no member of the cluster"),
        (
            replace(OLD, kubernetes={"w1": "v1.24.17"}),
            {},
            "release",
            "w1: Kubernetes v1.24.17, where k8s-1.23.5-r1 has v1.23.5",
        ),
    ],
)
def test_a_no_go_is_named_with_what_to_do(
    found: GpuSituation, changes: dict[str, Any], name: str, words: str
) -> None:
    stopping = [gate for gate in judged(found, **changes) if gate.name == name]
    assert [gate for gate in stopping if words in gate.sentence()], stopping
    assert all(gate.cure for gate in stopping)


def test_no_order_is_a_no_go_that_names_both_pairs() -> None:
    found = situation("450.216.04", operator="23.3.2")
    stopping = judged(found, operator="23.6.0", gpu={"driver": "container"})
    words = next(gate.sentence() for gate in stopping if gate.name == "matrix")
    assert "driver 450.216.04, too old for GPU Operator 23.6.0" in words


def test_every_operator_of_the_matrix_runs_on_some_kubernetes_and_overlaps_the_next() -> None:
    lines = [line for line in BRANCHES if line in TESTED and TESTED[line].is_range]
    assert set(BRANCHES) - set(lines) == {"1.9", "1.10", "1.11"}
    for line, after in pairwise(lines):
        (low, high), (next_low, next_high) = TESTED[line].kubernetes, TESTED[after].kubernetes
        assert low <= next_low <= high <= next_high, (line, after)
        assert set(BRANCHES[line]) & set(BRANCHES[after]), "no driver that both take"


@pytest.mark.parametrize(("strategy", "stops"), [("OnDelete", False), ("RollingUpdate", True)])
def test_values_of_the_sites_own_may_not_let_operands_roll(strategy: str, stops: bool) -> None:
    own = {"toolkit": {"enabled": True}, "daemonsets": {"updateStrategy": strategy}}
    overrides = {"gpu_operator": {"gpu_operator_values": own}}
    site = samples.site(1, 2, gpu={}, role_overrides=overrides)
    desired = samples.desired(site)
    wanted = target_of(desired)
    assert wanted is not None
    observed = Observed({}, samples.cluster(desired))
    gates = gpu_gates(desired, observed, wanted, OLD, GpuEvidence(WHOLE))
    found = next(gate for gate in gates if gate.name == "operands")
    assert (wanted.waits, found.stops) == (True, stops)
