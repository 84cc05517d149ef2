"""A lab like a site: the names of its nodes, its groups, its settings, and what refuses it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from appliance.errors import ConfigError, Refused
from appliance.lab.gpus import gpu_facts
from appliance.lab.layout import RunningNode
from appliance.lab.like import like_extras, like_lab, like_name, like_site
from appliance.lab.site.site import KUBELET
from appliance.lab.up import lab_up
from appliance.model.upgrade.rehearsal.likeness import Likeness, LikeNode
from tests.unit.lab.test_workflows import REQUEST, FakeMachine, ports

NETWORK = IPv4Network("198.18.7.0/24")
LIKE = Likeness(
    "rack7",
    "k8s-1.23.5-r1",
    (
        LikeNode("master1", True, ("control_plane", "services")),
        LikeNode("master2", True, ("control_plane",)),
        LikeNode("master3", True, ("control_plane",)),
        LikeNode("gpu1", False, ("gpu_workers",), gpus=8, stands_for=("gpu2",)),
        LikeNode("sys1", False, ("cpu_workers", "system_nodes")),
    ),
    kubelet={"maxPods": 250, "failSwapOn": True},
)


def test_nodes_have_the_names_of_the_site_and_addresses_of_the_lab() -> None:
    lab = like_lab("like-rack7", NETWORK, LIKE)
    assert {node.name: str(node.address) for node in lab.nodes} == {
        "master1": "198.18.7.11",
        "master2": "198.18.7.12",
        "master3": "198.18.7.13",
        "gpu1": "198.18.7.21",
        "sys1": "198.18.7.22",
    }
    assert lab.domain == "like-rack7.test"


def test_groups_and_kubelet_are_those_of_the_site_but_for_what_a_lab_needs() -> None:
    lab = like_lab("like-rack7", NETWORK, LIKE)
    made = like_site(
        lab, LIKE, operating_system="debian-12", private_key=Path("/s/.appliance/ssh/key"),
        extras=like_extras(LIKE),
    )  # fmt: skip
    assert made.groups == {
        "control_plane": ("master1", "master2", "master3"),
        "services": ("master1",),
        "gpu_workers": ("gpu1",),
        "cpu_workers": ("sys1",),
        "system_nodes": ("sys1",),
    }
    assert made.settings["kubernetes"]["kubelet"] == {**KUBELET, "maxPods": 250}
    assert made.settings["control_plane_endpoint"]["balancer"] == "keepalived"
    assert made.secrets == {}


def test_what_objects_of_a_backup_name_is_as_on_the_site_and_the_api_is_the_labs() -> None:
    """A kubeconfig with the site's name of the API would open the site, once its CAs are here."""
    carried = {
        "pod_cidr": "10.244.0.0/16",
        "service_cidr": "10.96.0.0/12",
        "registry": "registry.rack7.example:5000",
    }
    lab = like_lab("like-rack7", NETWORK, LIKE)
    made = like_site(
        lab, replace(LIKE, carried=carried), operating_system="debian-12",
        private_key=Path("/s/.appliance/ssh/key"), extras=like_extras(LIKE),
    )  # fmt: skip
    network = made.settings["network"]
    assert (network["pod_cidr"], network["service_cidr"]) == ("10.244.0.0/16", "10.96.0.0/12")
    assert network["lan_cidrs"] == ["198.18.7.0/24"]
    assert made.settings["registry"] == "registry.rack7.example:5000"
    assert made.settings["control_plane_endpoint"]["name"] == "api.like-rack7.test"
    assert made.settings["artifacts"] == "artifacts.like-rack7.test:9443"


def test_each_worker_has_as_many_gpus_as_on_the_site() -> None:
    lab = like_lab("like-rack7", NETWORK, LIKE)
    found = gpu_facts(lab, like_extras(LIKE).gpus, LIKE.gpus)
    assert {name: len(section["gpus"]) for name, section in found.items()} == {"gpu1": 8}


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ("rack7", "like-rack7"),
        ("Rack 7, München", "like-rack-7--m-nchen"),
        ("x" * 40, "like-" + "x" * 15),
    ],
)
def test_the_lab_is_named_for_the_site(site: str, name: str) -> None:
    assert like_name(site) == name


def test_an_invalid_name_of_the_lab_is_refused() -> None:
    with pytest.raises(ConfigError):
        like_lab("", NETWORK, LIKE)


def test_what_the_site_has_is_made_after_the_install() -> None:
    machine = FakeMachine()
    request = replace(REQUEST, name="like-rack7", like=LIKE, bundle_is_there=True)
    made = replace(ports(machine), make_alike=lambda like: machine.done.append(f"as {like.site}"))
    result = lab_up(request, made)
    assert [node.name for node in result.lab.nodes] == [node.name for node in LIKE.nodes]
    assert machine.done[-2:] == ["install", "as rack7"]
    assert "lab is like rack7" in machine.done
    assert {node.name for node in machine.running} == {node.name for node in LIKE.nodes}


def test_a_lab_that_has_a_node_of_that_name_is_in_the_way() -> None:
    machine = FakeMachine()
    image = "localhost/appliance-lab-node:debian-12-0123456789ab"
    machine.running.append(RunningNode("gpu1", "other", "running", "", image))
    request = replace(REQUEST, name="like-rack7", like=LIKE, bundle_is_there=True)
    with pytest.raises(Refused, match="lab other has a node gpu1") as caught:
        lab_up(request, ports(machine))
    assert caught.value.hint == "appliance lab down --name other"
    assert machine.done == []
