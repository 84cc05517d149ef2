"""What runs of the GPU stack, read from facts and pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.model.components.gpu.unmet import gpu
from appliance.model.state.cluster.pods import TEMPLATE_LABEL, Pod
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from appliance.model.upgrade.gpu.observed import gpu_situation, replaced_packages
from appliance.model.upgrade.gpu.points import operator_points
from appliance.model.upgrade.gpu.target import Target, target_of
from tests import samples
from tests.samples_gpu import DRIVER, FABRIC
from tests.unit.gpu.upgrade_rack import with_nvswitches

MANIFEST = samples.desired(samples.site(gpu={})).manifest


@pytest.mark.parametrize(
    ("installed", "gone"),
    [
        # Of the same branch apt upgrades in place.
        (("cuda-drivers-535", "nvidia-driver-535", "libnvidia-gl-535"), ()),
        (
            ("cuda-drivers-525", "nvidia-driver-525", "libnvidia-gl-525", "nvidia-dkms-525"),
            ("cuda-drivers-525", "libnvidia-gl-525", "nvidia-dkms-525", "nvidia-driver-525"),
        ),
        (
            ("cuda-drivers-fabricmanager-525", "nvidia-fabricmanager-525", "nvidia-driver-525"),
            ("cuda-drivers-fabricmanager-525", "nvidia-driver-525", "nvidia-fabricmanager-525"),
        ),
        # A power cut removed the metapackage already.
        (
            ("nvidia-driver-525", "libnvidia-gl-525", "libnvidia-extra-525"),
            ("libnvidia-extra-525", "libnvidia-gl-525", "nvidia-driver-525"),
        ),
        # A branch that no package of a driver names, and other makers' packages, stay.
        (("cuda-drivers-535", "libfoo-525", "nvidia-container-toolkit"), ()),
        (("cuda-drivers-525", "mytool-525"), ("cuda-drivers-525",)),
        ((), ()),
    ],
)
def test_only_packages_of_other_branches_are_replaced(
    installed: tuple[str, ...], gone: tuple[str, ...]
) -> None:
    assert MANIFEST is not None
    facts = NodeFacts({"schema": 1, "packages": {"installed": dict.fromkeys(installed, "1")}})
    assert replaced_packages(facts, MANIFEST) == gone


def test_what_a_power_cut_left_half_removed_is_replaced_too() -> None:
    assert MANIFEST is not None
    packages = {
        "installed": {"libnvidia-gl-525": "1"},
        "broken": ["nvidia-dkms-525: half-configured", "dbus: unpacked"],
    }
    facts = NodeFacts({"schema": 1, "packages": packages})
    assert replaced_packages(facts, MANIFEST) == ("libnvidia-gl-525", "nvidia-dkms-525")


def seen(pods: tuple[Pod, ...] = (), **facts: Any) -> tuple[Any, Target]:
    desired = samples.desired(samples.site(1, 1, gpu={}))
    target = target_of(desired)
    assert target is not None
    document = samples.converged(desired.site.node("w1"), desired)
    document["packages"]["installed"] |= {"nvidia-container-toolkit": "1.17.8-1"}
    for path, value in facts.items():
        document[path] = value
    cluster = samples.cluster(desired)
    assert cluster.gpu_stack is not None
    cluster = replace(cluster, gpu_stack=replace(cluster.gpu_stack, pods=pods))
    found = gpu_situation(desired, Observed({"w1": NodeFacts(document)}, cluster), target)
    return (desired, found), target


def test_a_converged_node_has_no_reason() -> None:
    (_, found), target = seen()
    assert tuple(found.nodes["w1"].reasons(target)) == ()
    assert (found.operator, found.drivers, target.driver) == ("22.9.2", (DRIVER,), DRIVER)
    assert target.fabric_manager == DRIVER


def test_the_fabric_manager_is_of_one_package_with_the_driver() -> None:
    (_, found), target = seen(nvswitches=[{"address": "0000:40:00.0"}])
    node = found.nodes["w1"]
    assert FABRIC in node.wanted
    assert "fabric manager is absent, not 535.183.06, the driver's version" in node.reasons(target)


@pytest.mark.parametrize(
    ("image", "owner", "stale"),
    [
        ("k8s-device-plugin@sha256:" + "e" * 64, "DaemonSet", True),
        ("k8s-device-plugin:v0.13.0", "DaemonSet", False),
        ("somebodys@sha256:" + "e" * 64, "DaemonSet", False),
        ("k8s-device-plugin@sha256:" + "e" * 64, "ReplicaSet", False),
    ],
)
def test_a_pod_with_another_image_of_the_bundle_is_stale(
    image: str, owner: str, stale: bool
) -> None:
    pod = Pod(
        "gpu-operator",
        "nvidia-device-plugin-daemonset-x",
        "w1",
        owner=(owner, "x"),
        app="plugin",
        images=(f"registry.rack.test:5000/{image}",),
    )
    (_, found), target = seen((pod,))
    words = "plugin: its pod is not the bundle's"
    assert (words in tuple(found.nodes["w1"].reasons(target))) == stale
    (_, ending), target = seen((replace(pod, ending=True),))
    assert tuple(ending.nodes["w1"].reasons(target)) == ()


def test_an_operator_whose_pod_is_of_another_image_is_not_the_bundles_yet() -> None:
    old = "registry.rack.test:5000/gpu-operator:v1@sha256:" + "e" * 64
    pod = Pod("gpu-operator", "gpu-operator-5d", "cp1", owner=("ReplicaSet", "x"), images=(old,))
    (desired, found), target = seen((pod,))
    points = tuple(operator_points(desired, found, target))
    assert points == ("pod gpu-operator-5d is not of the bundle's image",)


@pytest.mark.parametrize(
    ("label", "templates", "stale"),
    [
        ("0ld", {"plugin": "new"}, True),
        ("new", {"plugin": "new"}, False),
        ("0ld", {"another": "new"}, False),
        ("", {"plugin": "new"}, False),
    ],
)
def test_a_pod_of_an_older_template_is_stale(
    label: str, templates: dict[str, str], stale: bool
) -> None:
    labels = {TEMPLATE_LABEL: label} if label else {}
    pod = Pod("gpu-operator", "p", "w1", owner=("DaemonSet", "plugin"), app="plugin", labels=labels)
    (desired, _), target = seen((pod,))
    cluster = samples.cluster(desired)
    assert cluster.gpu_stack is not None
    stack = replace(cluster.gpu_stack, pods=(pod,), templates=templates)
    found = gpu_situation(desired, Observed({}, replace(cluster, gpu_stack=stack)), target)
    assert (found.nodes["w1"].stale == ("plugin",)) == stale


@pytest.mark.parametrize(("version", "words"), [("535.183.06", ""), ("525.60.13", "525.60.13")])
def test_a_fabric_manager_out_of_step_is_no_converged_node(version: str, words: str) -> None:
    (desired, _), _ = seen()
    node = desired.site.node("w1")
    document = samples.converged(node, desired)
    with_nvswitches(document, "535.183.06")
    document["packages"]["installed"]["nvidia-fabricmanager-535"] = f"{version}-1"
    observed = Observed({"w1": NodeFacts(document)}, samples.cluster(desired))
    found = [text for text in gpu(node, desired, observed) if text.startswith("fabric manager")]
    assert bool(found) == bool(words)
    assert words in " ".join(found)
