from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
import yaml

from appliance.adapters.local.content import default_release, load_release
from appliance.builder.sources.apt.sources import DEBIAN_SUITES
from appliance.errors import ConfigError, LabError
from appliance.lab import layout as lab
from appliance.lab.gpus import gpu_facts, sliced
from appliance.lab.site.site import KEY, LabExtras, is_played, lab_site
from appliance.model.components.gpu.offers import sharing_of
from appliance.model.site.runai_settings import Gpu

SUBNET = IPv4Network("198.18.7.0/24")


@pytest.mark.parametrize(
    ("present", "layout"),
    [
        ((), "v1"),
        ((lab.HYBRID_MARKER,), "hybrid"),
        ((lab.V2_MARKER,), "v2"),
        ((lab.V2_MARKER, lab.HYBRID_MARKER), "v2"),
    ],
)
def test_the_control_group_layout_is_read_from_marker_files(
    present: tuple[str, ...], layout: str
) -> None:
    assert lab.cgroup_layout(present) == layout


@pytest.mark.parametrize("layout", ["v1", "hybrid"])
def test_on_v1_and_hybrid_hosts_podman_keeps_its_hands_off_systemd(
    layout: lab.CgroupLayout,
) -> None:
    options = lab.node_options(layout)
    assert "--systemd=false" in options
    assert "--tmpfs=/run:mode=755" in options


@pytest.mark.parametrize(("layout", "alone"), [("v1", True), ("hybrid", False), ("v2", False)])
def test_where_cgroup2_is_one_for_all_nodes_their_systemd_leaves_it_alone(
    layout: lab.CgroupLayout, alone: bool
) -> None:
    legacy = "--env=SYSTEMD_PROC_CMDLINE=systemd.legacy_systemd_cgroup_controller=1"
    assert (legacy in lab.node_options(layout)) is alone


def test_on_v2_hosts_podman_mounts_the_one_hierarchy() -> None:
    options = lab.node_options("v2")
    assert "--systemd=always" in options
    assert not any(option.startswith("--tmpfs") for option in options)


@pytest.mark.parametrize("layout", ["v1", "hybrid", "v2"])
def test_every_node_has_control_groups_and_hosts_of_its_own(layout: lab.CgroupLayout) -> None:
    options = lab.node_options(layout)
    assert {"--cgroupns=private", "--no-hosts", "--stop-signal=RTMIN+3"} <= set(options)


def test_names_and_addresses_follow_from_the_request() -> None:
    found = lab.plan_lab("lab", SUBNET, control_planes=3, workers=2)
    assert [(node.name, str(node.address)) for node in found.nodes] == [
        ("lab-cp1", "198.18.7.11"),
        ("lab-cp2", "198.18.7.12"),
        ("lab-cp3", "198.18.7.13"),
        ("lab-w1", "198.18.7.21"),
        ("lab-w2", "198.18.7.22"),
    ]
    assert found.services.name == "lab-cp1"
    assert found.domain == "lab.test"


def test_every_fault_of_a_request_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        lab.plan_lab("Lab_", SUBNET, control_planes=2, workers=99)
    assert len(caught.value.details) == 3
    assert caught.value.exit_code == 3


def test_the_same_name_gets_the_same_network_where_it_is_free() -> None:
    assert lab.choose_subnet("lab", ()) == lab.choose_subnet("lab", ())
    assert lab.choose_subnet("lab", ()) != lab.choose_subnet("other", ())


def test_a_taken_network_is_passed_over() -> None:
    first = lab.choose_subnet("lab", ())
    second = lab.choose_subnet("lab", (IPv4Network(f"{first.network_address + 7}/32"),))
    assert not first.overlaps(second)
    assert second.subnet_of(lab.LAB_RANGE)


def test_when_every_network_is_taken_it_says_so() -> None:
    with pytest.raises(LabError, match="is in use"):
        lab.choose_subnet("lab", (lab.LAB_RANGE,))


def test_a_lab_keeps_the_network_it_has() -> None:
    networks = [{"name": "appliance-lab", "subnets": [{"subnet": "198.18.200.0/24"}]}]
    assert lab.subnet_for("lab", ["default", "198.18.200.0/24"], networks) == "198.18.200.0/24"


def test_a_recreated_node_is_the_same_machine_and_another_is_not() -> None:
    assert lab.node_facts("lab-w1") == lab.node_facts("lab-w1")
    one, other = lab.node_facts("lab-w1"), lab.node_facts("lab-w2")
    for section, key in (("dmi", "serial"), ("host", "product_uuid")):
        assert one[section][key] != other[section][key]


@pytest.mark.parametrize(
    ("image", "system"),
    [
        ("localhost/appliance-lab-node:debian-11-0123456789ab", "debian-11"),
        ("localhost/appliance-lab-node:debian-12-0123456789ab", "debian-12"),
        ("localhost/appliance-lab-node:0123456789ab", ""),
        ("docker.io/library/debian:11", ""),
    ],
)
def test_the_image_of_a_node_says_what_it_runs(image: str, system: str) -> None:
    assert lab.RunningNode("w1", "lab", "running", "", image).operating_system == system


@pytest.mark.parametrize(
    ("systems", "told"),
    [
        ((), ["Debian 12 in place of Ubuntu 20.04"]),
        (("",), ["Debian 12 in place of Ubuntu 20.04"]),
        (("debian-11",), ["Debian 11 in place of Ubuntu 20.04"]),
        (
            ("debian-11", "debian-12"),
            ["Debian 12 in place of Ubuntu 20.04", "Debian 11 in place of Ubuntu 20.04"],
        ),
    ],
)
def test_the_stand_ins_name_what_the_nodes_run(systems: tuple[str, ...], told: list[str]) -> None:
    found = lab.stand_ins(systems)
    assert [one.played_by for one in found if one.part == "operating system"] == told
    assert len({one.part for one in found}) == len(lab.stand_ins())


def test_what_nodes_can_run_is_one_list_for_recipe_release_and_archives() -> None:
    recipe = yaml.safe_load((Path(lab.__file__).parent / "node/recipe.yml").read_text())
    suites = {name: system["suite"] for name, system in recipe["systems"].items()}
    assert suites == DEBIAN_SUITES
    assert tuple(suites) == lab.SYSTEMS
    release = load_release(default_release())
    own = {name for name, system in release.operating_systems.items() if not system.archives}
    assert own == set(lab.SYSTEMS)


def test_every_invented_value_says_standin() -> None:
    facts = lab.node_facts("lab-w1")
    assert all("STANDIN" in str(value) for value in facts["dmi"].values())
    for dimm in facts["memory"]["dimms"]:
        assert all("STANDIN" in dimm[key] for key in ("locator", "manufacturer", "part", "serial"))


def test_role_variables_hold_what_was_given_for_a_node() -> None:
    found = lab.plan_lab("lab", SUBNET, control_planes=1, workers=0)
    facts = {"lab-cp1": {"clock": {"offset_seconds": 600}}}
    variables = lab.role_variables(found, public_key="/k.pub", known_hosts="/kh", facts=facts)
    (node,) = variables["lab_node_nodes"]
    assert node["facts"]["clock"] == {"offset_seconds": 600}
    assert node["facts"]["dmi"]["serial"] == "STANDIN-lab-cp1"


def test_platforms_of_a_scenario_become_nodes_and_instances() -> None:
    nodes = lab.platform_nodes([{"name": "one"}, {"name": "two"}], "198.18.7.0/24")
    assert [node["address"] for node in nodes] == ["198.18.7.11", "198.18.7.12"]
    (first, _second) = lab.platform_instances(nodes, "appliance", "/key")
    assert first == {
        "instance": "one",
        "address": "198.18.7.11",
        "user": "appliance",
        "port": 22,
        "identity_file": "/key",
    }


def test_a_labs_site_stands_in_ranges_that_are_never_real() -> None:
    found = lab.plan_lab("lab", SUBNET, control_planes=1, workers=2)
    site = lab_site(found, release="r", operating_system="debian-12", private_key=KEY)
    assert site.groups == {
        "control_plane": ("lab-cp1",),
        "services": ("lab-cp1",),
        "cpu_workers": ("lab-w1", "lab-w2"),
    }
    assert site.host_vars["lab-w1"]["address"] == "198.18.7.21/24"
    for key in ("pod_cidr", "service_cidr"):
        assert IPv4Network(site.settings["network"][key]).subnet_of(IPv4Network("198.19.0.0/16"))
    assert site.settings["time"] == {"may_set_clock": False}


def test_three_control_planes_stand_behind_a_balanced_address() -> None:
    found = lab.plan_lab("lab", SUBNET, control_planes=3, workers=1)
    site = lab_site(found, release="r", operating_system="debian-12", private_key=KEY)
    endpoint = site.settings["control_plane_endpoint"]
    assert endpoint["balancer"] == "keepalived"
    assert IPv4Address(endpoint["virtual_address"]) not in {node.address for node in found.nodes}


def test_a_lab_with_storage_serves_it_by_ganesha_and_asks_for_little() -> None:
    found = lab.plan_lab("lab", SUBNET, control_planes=1, workers=1)
    site = lab_site(
        found,
        release="r",
        operating_system="debian-12",
        private_key=KEY,
        extras=LabExtras(storage=True),
    )
    assert site.settings["nfs"] == {
        "server": "lab-cp1",
        "path": "/srv/runai",
        "minimum_free_gb": 1,
    }
    assert site.settings["role_overrides"] == {
        "host_base": {"host_base_swap_managed": False},
        "nfs_server": {"nfs_server_implementation": "ganesha"},
    }
    plain = lab_site(found, release="r", operating_system="debian-12", private_key=KEY)
    assert "nfs" not in plain.settings


def test_workers_with_gpus_are_gpu_workers_and_every_gpu_says_standin() -> None:
    found = lab.plan_lab("lab", SUBNET, control_planes=1, workers=2)
    facts = gpu_facts(found, 2)
    assert sorted(facts) == ["lab-w1", "lab-w2"]
    assert [gpu["vendor_id"] for gpu in facts["lab-w1"]["gpus"]] == ["0x10de"] * 2
    assert all("STANDIN" in gpu["address"] for gpu in facts["lab-w1"]["gpus"])
    assert gpu_facts(found, 0) == {}
    site = lab_site(
        found, release="r", operating_system="debian-12", private_key=KEY, extras=LabExtras(gpus=2)
    )
    assert site.groups["gpu_workers"] == ("lab-w1", "lab-w2")
    assert "cpu_workers" not in site.groups
    assert site.settings["gpu"]


@pytest.mark.parametrize(("workers", "sharing"), [(1, None), (2, "lab-w2"), (3, "lab-w3")])
def test_one_worker_shares_its_gpus_and_the_others_offer_them_whole(
    workers: int, sharing: str | None
) -> None:
    found = lab.plan_lab("lab", SUBNET, control_planes=1, workers=workers)
    extras = LabExtras(gpus=2, runai="2.7.14")
    settings = lab_site(
        found, release="r", operating_system="debian-12", private_key=KEY, extras=extras
    ).settings["gpu"]
    assert settings.get("time_slicing") == (sliced(4, sharing) if sharing else None)
    wanted = Gpu.model_validate(settings)
    replicas = {node.name: sharing_of(wanted, node.name).replicas for node in found.nodes}
    assert {name for name, count in replicas.items() if count == 4} == ({sharing} - {None})


@pytest.mark.parametrize(
    ("version", "played"),
    [("2.4.0", True), ("2.8.22", True), ("2.3.9", False), ("2.9.0", False), ("2.13.1", False),
     ("2.7", False), ("v2.7.1", False), ("2.7.1/../x", False), ("", False), ("\uff12.7.1", False)],
)  # fmt: skip
def test_a_lab_plays_the_versions_of_runai_that_a_site_can_run(version: str, played: bool) -> None:
    assert is_played(version) is played
