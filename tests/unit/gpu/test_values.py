"""What the chart is told: nothing that would be asked for outside, nothing that moves by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.model.bundle.manifest import BundleManifest
from appliance.model.bundle.release.gpu_operator_versions import is_refused
from appliance.model.components.gpu.driver import fabric_manager, kernels_of
from appliance.model.components.gpu.operator import (
    absent_images,
    chart_of,
    gpu_nodes,
    merged,
    operator_values,
)
from appliance.model.components.runai.cluster_values import cluster_values
from appliance.model.plan.inventory import run_inventory
from appliance.model.state.certificates import values_digest
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Choice
from tests import samples
from tests.unit.modules.loading import load_utils

REGISTRY = "registry.rack.test:5000"
DRAIN = {"key": "runai", "operator": "Exists", "effect": "NoExecute"}


def desired(**gpu: Any) -> tuple[Desired, BundleManifest]:
    found = samples.desired(samples.site(gpu=gpu))
    assert found.manifest is not None
    return found, found.manifest


def values(**gpu: Any) -> dict[str, Any]:
    return operator_values(*desired(**gpu))


def repositories(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key == "repository":
            yield path, inner
        yield from repositories(inner, f"{path}.{key}" if path else key)


def test_every_operand_is_taken_from_the_sites_registry() -> None:
    found = dict(repositories(values()))
    assert {place.partition("/")[0] for place in found.values()} == {REGISTRY}
    assert set(found) >= {
        "operator", "operator.initContainer", "validator", "driver", "driver.manager", "toolkit",
        "devicePlugin", "dcgmExporter", "gfd", "migManager", "node-feature-discovery.image",
        "vgpuManager.driverManager", "vfioManager.driverManager",
    }  # fmt: skip
    assert "nvcr.io" not in json.dumps(values())


def test_each_operand_is_the_bundles_by_digest() -> None:
    _, manifest = desired()
    digest = manifest.images["k8s-device-plugin:v1"]
    found = values()
    assert found["devicePlugin"]["version"] == digest
    assert found["driver"]["version"] == manifest.images["driver:525.60.13-ubuntu20.04"]
    # The chart itself puts a colon before these.
    for name, written in (
        ("gpu-operator", found["operator"]["version"]),
        ("node-feature-discovery", found["node-feature-discovery"]["image"]["tag"]),
    ):
        assert written == f"v1@{manifest.images[f'{name}:v1']}"


def test_the_runtime_is_docker_and_drivers_are_never_rolled_by_themselves() -> None:
    found = values()
    assert found["operator"]["defaultRuntime"] == "docker"
    assert found["driver"]["upgradePolicy"] == {"autoUpgrade": False}


def test_a_drained_node_keeps_the_gpu_stack() -> None:
    found = values()
    assert DRAIN in found["daemonsets"]["tolerations"]
    assert DRAIN in found["node-feature-discovery"]["worker"]["tolerations"]


def test_the_driver_is_the_operators_or_the_hosts() -> None:
    container = values(driver="container")["driver"]
    assert container["enabled"] is True
    assert container["repoConfig"]["configMapName"]
    assert container["certConfig"]["name"]
    for given in ({}, {"driver": "host"}, {"driver": "preinstalled"}):
        host = values(**given)["driver"]
        assert host["enabled"] is False
        assert "repoConfig" not in host


def test_the_toolkit_is_the_operators_unless_it_comes_with_the_driver_from_the_bundle() -> None:
    assert values()["toolkit"]["enabled"] is False
    assert values(driver="container")["toolkit"]["enabled"] is True
    assert values(driver="preinstalled")["toolkit"]["enabled"] is True


def test_mig_and_time_slicing_are_told_as_nvidias_chart_reads_them() -> None:
    assert "mig" not in values()
    assert "config" not in values()["devicePlugin"]
    slicing = {"replicas": 4, "rename_by_default": True, "workers": ["w2"]}
    found = values(mig_strategy="mixed", time_slicing=slicing)
    assert found["mig"] == {"strategy": "mixed"}
    config = found["devicePlugin"]["config"]
    assert (config["create"], config["default"]) == (True, "unshared")
    documents = {name: json.loads(text) for name, text in config["data"].items()}
    assert documents == {
        "unshared": {"version": "v1"},
        "shared": {
            "version": "v1",
            "sharing": {
                "timeSlicing": {
                    "renameByDefault": True,
                    "failRequestsGreaterThanOne": False,
                    "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
                }
            },
        },
    }
    everywhere = values(time_slicing={"replicas": 2})["devicePlugin"]["config"]
    assert everywhere["default"] == "shared"


def test_the_site_has_the_last_word_deep_inside() -> None:
    found = values(values={"devicePlugin": {"config": {"name": "x"}}, "mig": {"strategy": "mixed"}})
    assert found["devicePlugin"]["config"] == {"name": "x"}
    assert found["devicePlugin"]["repository"] == REGISTRY
    assert found["mig"] == {"strategy": "mixed"}
    assert merged({"a": [1]}, {"a": [2]}) == {"a": [2]}


def test_an_exception_of_the_site_replaces_all() -> None:
    given = {"gpu_operator": {"gpu_operator_values": {"only": "this"}}}
    found = samples.desired(samples.site(gpu={}, role_overrides=given))
    assert found.manifest is not None
    assert operator_values(found, found.manifest) == {"only": "this"}


def test_the_digest_of_values_is_the_one_that_the_module_makes() -> None:
    module = load_utils("appliance_helm").digest_of_values(values())
    assert values_digest(values()) == module
    assert values_digest({"a": 1, "b": "ä"}) == values_digest({"b": "ä", "a": 1})


def test_a_cluster_part_of_runai_brings_no_feature_discovery_beside_the_operators() -> None:
    off = {"gpu-feature-discovery": {"enabled": False, "nfd": {"deploy": False}}}
    assert cluster_values(samples.settings(gpu={}, runai={})) == off
    assert cluster_values(samples.settings(runai={})) == {}
    own = {"gpu-feature-discovery": {"enabled": True}, "other": 1}
    found = cluster_values(samples.settings(gpu={}, runai={"cluster_values": own}))
    assert found == {
        "gpu-feature-discovery": {"enabled": True, "nfd": {"deploy": False}},
        "other": 1,
    }


@pytest.mark.parametrize(
    ("version", "refused"),
    [("1.9.1", False), ("1.10.1", True), ("v1.11.0", True), ("22.9.2", False), ("1.1.0", False)],
)
def test_versions_that_runai_does_not_take_are_known(version: str, refused: bool) -> None:
    assert is_refused(version) is refused


def test_nodes_that_are_opted_out_or_have_no_gpus_are_not_served() -> None:
    site = samples.site(workers=3, gpu={"opted_out": ["w2"]})
    assert [node.name for node in gpu_nodes(site)] == ["w1", "w3"]
    assert gpu_nodes(samples.site()) == ()


def test_what_a_bundle_lacks_depends_on_where_the_driver_comes_from() -> None:
    manifest = samples.manifest()
    assert chart_of(manifest) is None
    assert "driver" in absent_images(manifest, "container")
    assert "driver" not in absent_images(manifest, "host")
    assert absent_images(desired()[1], "container") == ()


def test_a_packages_version_is_read_as_its_maker_counts() -> None:
    seen = {"nvidia-fabricmanager-525": "1:525.60.13-0ubuntu1", "other": "1"}
    node = samples.site().nodes[0]
    document = samples.bare(node)
    document["packages"]["installed"] = seen
    assert fabric_manager(samples.node_facts({"n": document})["n"]) == "525.60.13"


def test_the_kernels_of_a_node_are_the_one_that_runs_and_those_it_may_boot() -> None:
    document = samples.bare(samples.site().nodes[0])
    document["os"]["kernel"] = "5.15.0-139-generic"
    document["packages"]["installed"] = dict.fromkeys(
        (
            "linux-image-generic", "linux-image-5.4.0-216-generic", "linux-image-$(id)-generic",
            "linux-image-unsigned-5.15.0-139-generic", "linux-headers-5.4.0-1-generic",
        ),
        "1",
    )  # fmt: skip
    found = kernels_of(samples.node_facts({"n": document})["n"])
    assert found == ("5.15.0-139-generic", "5.4.0-216-generic")


def inventory(*, switches: bool = False, **gpu: Any) -> dict[str, Any]:
    found, _ = desired(**gpu)
    documents = {node.name: samples.converged(node, found) for node in found.site.nodes}
    documents["w1"]["packages"]["installed"] = {"nvidia-fabricmanager-525": "525.60.13-1"}
    if switches:
        documents["w1"]["nvswitches"] = [{"address": "0000:c4:00.0", "device_id": "0x1af1"}]
    observed = Observed(samples.node_facts(documents), samples.cluster(found))
    made = run_inventory(found, observed, Choice("cp1"), bundle_directory=None)
    everything: dict[str, Any] = made["all"]
    return everything


def test_the_roles_are_told_everything_they_must_know() -> None:
    told = inventory(opted_out=["w2"])["vars"]
    assert told["gpu_operator_chart_sha256"] == "c4" * 32
    assert told["gpu_operator_helm_sha256"] == "de" * 32
    assert told["gpu_operator_node_labels"] == [
        {"name": "w1", "labels": {"nvidia.com/gpu.deploy.operands": None}},
        {"name": "w2", "labels": {"nvidia.com/gpu.deploy.operands": "false"}},
    ]
    assert told["gpu_operator_packages_url"] == "https://198.18.7.11:9443/apt"


def test_each_node_gets_the_driver_for_its_kernels_and_its_switches() -> None:
    made = inventory(opted_out=["w2"])
    told = made["hosts"]["w1"]
    assert told["gpu_driver_packages"] == {
        "linux-headers-5.4.0-109-generic": "5.4.0-109.123",
        "cuda-drivers-535": "535.183.06-1",
        "nvidia-container-toolkit": "1.17.8-1",
    }
    assert told["gpu_driver_version"] == "535.183.06"
    assert told["gpu_driver_kernels"] == ["5.4.0-109-generic"]
    assert told["gpu_driver_fabric_manager_enabled"] is False
    assert "gpu_driver_packages" not in made["hosts"]["w2"]
    assert made["children"]["appliance_gpu_driver"]["hosts"] == {"w1": None}
    switched = inventory(switches=True)["hosts"]["w1"]
    assert "cuda-drivers-fabricmanager-535" in switched["gpu_driver_packages"]
    assert "cuda-drivers-535" not in switched["gpu_driver_packages"]
    assert switched["gpu_driver_fabric_manager_enabled"] is True


@pytest.mark.parametrize("driver", ["container", "preinstalled"])
def test_no_node_gets_a_driver_that_is_not_asked_for(driver: str) -> None:
    made = inventory(driver=driver)
    assert made["children"]["appliance_gpu_driver"]["hosts"] == {}
    assert not [key for key in made["hosts"]["w1"] if key.startswith("gpu_driver_")]


def test_workers_that_share_their_gpus_are_labelled_for_the_config_manager() -> None:
    slicing = {"replicas": 4, "workers": ["w2"]}
    labels = inventory(time_slicing=slicing)["vars"]["gpu_operator_node_labels"]
    key = "nvidia.com/device-plugin.config"
    assert {item["name"]: item["labels"][key] for item in labels} == {"w1": None, "w2": "shared"}
    plain = inventory()["vars"]["gpu_operator_node_labels"]
    assert not [item for item in plain if key in item["labels"]]


def test_the_fabric_manager_runs_where_the_host_has_one_and_its_own_driver() -> None:
    host = inventory(driver="preinstalled")["hosts"]
    container = inventory(driver="container")["hosts"]
    key = "gpu_node_fabric_manager_enabled"
    assert (host["w1"][key], host["w2"][key], container["w1"][key]) == (True, False, False)
    assert key not in host["cp1"]


def test_a_site_without_gpus_tells_the_roles_nothing() -> None:
    found = samples.desired()
    assert found.manifest is not None
    documents = {node.name: samples.bare(node) for node in found.site.nodes}
    observed = Observed(samples.node_facts(documents), samples.cluster(found))
    made = run_inventory(found, observed, Choice("cp1"), bundle_directory=None)["all"]
    assert not [key for key in made["vars"] if key.startswith("gpu_")]


def test_control_planes_take_their_own_images_alone() -> None:
    images = [item["name"] for item in inventory()["hosts"]["cp1"]["kubernetes_node_images"]]
    assert "etcd:3.5.1-0" in images
    assert not [name for name in images if name.startswith(("gpu", "cuda", "driver", "busybox"))]
