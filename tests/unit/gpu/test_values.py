"""What the chart is told: nothing that would be asked for outside, nothing that moves by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.model.bundle.gpu_operator_versions import is_refused
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.components.gpu.operator import (
    absent_images,
    chart_of,
    fabric_manager,
    gpu_nodes,
    merged,
    operator_values,
)
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
    container, host = values()["driver"], values(driver="host")["driver"]
    assert container["enabled"] is True
    assert container["repoConfig"]["configMapName"]
    assert container["certConfig"]["name"]
    assert host["enabled"] is False
    assert "repoConfig" not in host


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


def inventory(**gpu: Any) -> dict[str, Any]:
    found, _ = desired(**gpu)
    documents = {node.name: samples.converged(node, found) for node in found.site.nodes}
    documents["w1"]["packages"]["installed"] = {"nvidia-fabricmanager-525": "525.60.13-1"}
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


def test_the_fabric_manager_runs_where_the_host_has_one_and_its_own_driver() -> None:
    host, container = inventory(driver="host")["hosts"], inventory()["hosts"]
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
