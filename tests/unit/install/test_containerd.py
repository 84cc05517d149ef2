"""containerd as the runtime of a release: what its step asks for, and what its role writes."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from appliance.adapters.local.content import load_release
from appliance.model.components.runtime.unmet import runtime
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import choose
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from tests import samples
from tests.unit.preflight import machines

ROLE = Path(__file__).parents[3] / "roles" / "containerd"
CRI = "io.containerd.grpc.v1.cri"
RUNS = {
    "runtime/containerd/version": "1.6.20~ds1",
    "runtime/containerd/cgroup_driver": "systemd",
    "services/containerd": {"enabled": "enabled", "active": "active"},
}


def desired() -> Desired:
    return dataclasses.replace(samples.desired(), release=load_release("k8s-1.24.17-r1"))


def unmet(changes: dict[str, Any]) -> list[str]:
    wanted = desired()
    node = wanted.site.node("w1")
    document = machines.bare(node)
    for path, value in changes.items():
        machines.put(document, path, value)
    return list(runtime(node, wanted, Observed({"w1": NodeFacts(document)}, NoCluster())))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"runtime/containerd/version": None}, ["containerd does not run"]),
        ({"runtime/containerd/version": "1.4.13"}, ["containerd is 1.4.13, not 1.6"]),
        ({"runtime/containerd/version": "1.60.1"}, ["containerd is 1.60.1, not 1.6"]),
        ({"runtime/containerd/cgroup_driver": "cgroupfs"},
         ["containerd's cgroup driver is cgroupfs, not systemd"]),
        ({"services/containerd": {"enabled": "disabled"}},
         ["containerd does not start at boot"]),
    ],
)  # fmt: skip
def test_what_a_node_lacks(change: dict[str, Any], said: list[str]) -> None:
    assert unmet({**RUNS, **change}) == said


def variables() -> dict[str, Any]:
    wanted, seen = desired(), Observed({}, NoCluster())
    choice, _ = choose(wanted, seen)
    run: dict[str, Any] = run_inventory(wanted, seen, choice, bundle_directory="/bundle")
    found: dict[str, Any] = run["all"]["vars"]
    return found


def test_an_install_gets_the_variables_of_one_runtime() -> None:
    found = variables()
    assert "docker_engine_packages" not in found
    assert found["containerd_sandbox_image"].endswith("/pause:3.7")
    assert found["kubernetes_node_runtime"] == "containerd"
    socket = "unix:///run/containerd/containerd.sock"
    assert found["kubeadm_worker_cri_socket"] == socket
    assert found["kubeadm_control_plane_cri_socket"] == socket


def rendered(**changes: Any) -> dict[str, Any]:
    constants = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    asked = {"containerd_sandbox_image": "r:5000/pause:3.7", "containerd_registry": "r:5000"}
    constants["__containerd_nvidia_runtime"] = ""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701
    environment.filters |= {"comment": lambda text: f"# {text}", "to_json": json.dumps}
    template = environment.from_string((ROLE / "templates/config.toml.j2").read_text())
    told = {"ansible_managed": "managed", **constants, **defaults, **asked, **changes}
    return tomllib.loads(template.render(told))


def test_the_configuration_says_what_the_defaults_of_containerd_have_otherwise() -> None:
    found = rendered()
    assert found["version"] == 2
    plugin = found["plugins"][CRI]
    assert plugin["sandbox_image"] == "r:5000/pause:3.7"
    assert plugin["cni"]["bin_dir"] == "/opt/cni/bin"
    runc = plugin["containerd"]["runtimes"]["runc"]
    assert runc["options"] == {"SystemdCgroup": True}
    assert plugin["registry"] == {"config_path": "/etc/containerd/certs.d"}


def test_containers_get_gpus_by_default_only_where_nvidias_runtime_is() -> None:
    assert "default_runtime_name" not in rendered()["plugins"][CRI]["containerd"]
    path = "/usr/bin/nvidia-container-runtime"
    found = rendered(__containerd_nvidia_runtime=path)["plugins"][CRI]
    assert found["containerd"]["default_runtime_name"] == "nvidia"
    nvidia = found["containerd"]["runtimes"]["nvidia"]
    assert nvidia["options"] == {"BinaryName": path, "SystemdCgroup": True}
    assert found["cni"]["bin_dir"] == "/opt/cni/bin"


def test_a_login_of_the_registry_is_in_it_whatever_its_characters() -> None:
    password = 'a"b\\c # d'  # noqa: S105 - hostile characters
    found = rendered(containerd_registry_user="puller", containerd_registry_password=password)
    registry = found["plugins"][CRI]["registry"]
    assert registry["configs"]["r:5000"]["auth"] == {"username": "puller", "password": password}
