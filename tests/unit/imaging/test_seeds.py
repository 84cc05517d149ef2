"""Seeds of bare servers: word for word for each hardware model, and by the rules of 20.04."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from appliance.adapters.local.hardware_models import hardware_names
from appliance.model.node.imaging.autoinstall import DISK_TO_FIND, Autoinstall
from appliance.model.node.imaging.focal import RULES, broken
from appliance.model.node.imaging.image import image_of, shared
from appliance.model.node.imaging.netplan import Network
from appliance.model.node.imaging.seed import for_many, render
from tests import golden
from tests.unit.imaging import bench

MODELS = [name for name in hardware_names() if not name.startswith("lab/")]
SHAPES: list[dict[str, Any]] = [
    {"storage": storage, "firmware": firmware, "vlan": vlan}
    for storage in ("root", "root_and_var", "lvm")
    for firmware in ("uefi", "bios")
    for vlan in (None, 7)
]
TWO = {"macs": ["00:00:5e:00:53:30", "00:00:5e:00:53:31"]}


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_of_each_model_is_as_recorded(model: str) -> None:
    seed = bench.seed(bench.of_model(model))
    text = "".join(f"=== {name}\n{text}" for name, text in seed.files.items() if text)
    # The programs have files of their own; the golden files show that they are there.
    for name in ("disk", "report"):
        program = getattr(bench.PROGRAMS, name)
        for indent in (4, 6):
            block = "".join(
                f"{' ' * indent}{line}".rstrip() + "\n" for line in program.splitlines()
            )
            text = text.replace(block, f"{' ' * indent}PROGRAM {name}.py\n")
    golden.agree("imaging/seeds", model, text)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("server", [bench.SERVER, bench.FAR], ids=["near", "far"])
def test_every_seed_keeps_the_rules_of_20_04(shape: dict[str, Any], server: Any) -> None:
    found = bench.image({"gateway": "198.18.7.254"}, {**shape, "bond": TWO})
    assert broken(bench.seed(found, server).document) == ()


# What breaks each rule, as (path, value) put into a good document; None takes the key away.
BREAKERS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "version": (("version",), 2),
    "identity": (("identity", "shell"), "/bin/sh"),
    "nested network": (("network",), {"version": 2, "ethernets": {}}),
    "no toggle": (("keyboard", "toggle"), None),
    "not interactive": (("interactive-sections",), ["network"]),
    "disk by its path": (("storage", "layout"), {"name": "direct"}),
    "early command": (("early-commands",), []),
    "rest is last": (("storage", "config", 1, "size"), -1),
    "no swap": (("storage", "swap"), {"size": "4G"}),
    "no question of the internet": (("apt", "geoip"), True),
    "no default route without a mirror": (
        ("network", "network", "ethernets", "lan0", "routes"),
        [{"to": "0.0.0.0/0", "via": "198.18.7.254"}],
    ),
    "apt: classic list": (("apt", "mirror-selection"), {"primary": []}),
    "route to figures": (
        ("network", "network", "ethernets", "lan0", "routes"),
        [{"to": "default", "via": "198.18.7.254"}],
    ),
    "no gateway4": (("network", "network", "ethernets", "lan0", "gateway4"), "198.18.7.254"),
    "no password": (("ssh", "allow-pw"), True),
    "host keys stay": (("user-data", "ssh_deletekeys"), True),
    "power off": (("shutdown",), "reboot"),
    "kernel flavor": (("kernel",), {"package": "linux-image-virtual"}),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_is_broken_by_what_it_forbids(rule: Any) -> None:
    document = copy.deepcopy(bench.seed(bench.image()).document)
    assert broken(document) == ()
    path, value = BREAKERS[rule.name]
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert [one.name for one in broken(document)] == [rule.name]


def test_every_rule_names_its_source() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all("subiquity" in rule.source or "netplan" in rule.source
               or rule.source.startswith("autoinstall reference") for rule in RULES)  # fmt: skip


def test_what_is_written_is_what_is_read() -> None:
    seed = bench.seed(bench.of_model("quanta/d43n-3u"))
    assert seed.user_data.startswith("#cloud-config\n")
    read = yaml.safe_load(seed.user_data)
    assert read == {"autoinstall": json.loads(json.dumps(seed.document))}
    assert Autoinstall.model_validate_json(json.dumps(seed.document)).plain() == seed.document


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ((), "late-command"),
        (("ssh",), "authorized_keys_"),
        (("storage",), "layout"),
        (("storage", "config", 0), "serial"),
        (("apt",), "mirror-selection"),
        (("identity",), "groups"),
        (("network", "network"), "wifis"),
        (("network", "network", "ethernets", "lan0"), "gateway4"),
    ],
)
def test_a_key_that_nobody_knows_is_refused(path: tuple[Any, ...], key: str) -> None:
    document = copy.deepcopy(bench.seed(bench.image()).document)
    place = document
    for step in path:
        place = place[step]
    place[key] = {}
    with pytest.raises(ValidationError, match="Extra inputs"):
        Autoinstall.model_validate_json(json.dumps(document))


def test_a_wiping_seed_differs_in_one_word() -> None:
    keep, wipe = (bench.seed(bench.image(), wipe=wipe) for wipe in (False, True))
    before, after = keep.user_data.splitlines(), wipe.user_data.splitlines()
    changed = [(a.strip(), b.strip()) for a, b in zip(before, after, strict=True) if a != b]
    assert changed == [("- keep", "- wipe")]


def test_no_token_of_another_form_is_rendered() -> None:
    for token in ("", "5e" * 15, "../" * 8, "5E" * 16, "5e" * 16 + "\n"):
        with pytest.raises(ValueError, match="hexadecimal"):
            render(bench.image(), bench.PROGRAMS, bench.SERVER, token)


def test_the_installer_reaches_a_far_server_without_a_default_route() -> None:
    found = bench.image({"gateway": "198.18.7.254"})
    during = bench.seed(found, bench.FAR).document["network"]["network"]["ethernets"]["lan0"]
    assert during["routes"] == [{"to": "203.0.113.9/32", "via": "198.18.7.254"}]
    assert found.network().plain()["ethernets"]["lan0"]["routes"] == [
        {"to": "0.0.0.0/0", "via": "198.18.7.254"}
    ]


def test_with_a_mirror_the_installer_has_the_default_route() -> None:
    found = bench.image({"gateway": "198.18.7.254", "apt_mirror": "http://198.18.7.5/ubuntu"})
    document = bench.seed(found, bench.FAR).document
    (route,) = document["network"]["network"]["ethernets"]["lan0"]["routes"]
    assert route["to"] == "0.0.0.0/0"
    assert document["apt"]["primary"] == [
        {"arches": ["default"], "uri": "http://198.18.7.5/ubuntu"}
    ]


@pytest.mark.parametrize(
    ("common", "own", "said"),
    [
        ({"gateway": "10.9.9.9"}, {}, "gateway"),
        ({"gateway": "198.18.7.21"}, {}, "own address"),
    ],
)
def test_what_the_files_lack_is_one_sentence(
    common: dict[str, Any], own: dict[str, Any], said: str
) -> None:
    asked = bench.site(common, own)
    found = image_of(asked, asked.node("w1"))
    assert isinstance(found, str)
    assert found.startswith("host_vars/w1.yml")
    assert said in found


def test_a_node_without_settings_is_named() -> None:
    asked = bench.site()
    assert image_of(asked, asked.node("w2")) == (
        "host_vars/w2.yml has no section imaging with the disk_serial of the disk to install to"
    )


def test_two_servers_may_share_nothing_that_chooses_a_seed() -> None:
    one = bench.image()
    assert shared([one]) == ()
    assert any("MAC 00:00:5e:00:53:21" in said for said in shared([one, bench.image()]))


def test_a_medium_for_many_without_a_choice_names_no_disk_of_a_machine() -> None:
    files = for_many(bench.PROGRAMS, [bench.seed(bench.image())])
    batch = yaml.safe_load(files["nocloud/user-data"])["autoinstall"]
    (disk,) = [one for one in batch["storage"]["config"] if one["type"] == "disk"]
    assert disk["path"] == DISK_TO_FIND
    assert "identity" not in batch
    assert json.loads(files["appliance/seeds/index.json"]) == [
        {"name": "w1", "serial": None, "macs": ["00:00:5e:00:53:21"]}
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"bonds": {"bond0": {"interfaces": ["lan0", "lan7"], "parameters": {"mode": "802.3ad"}}}},
        {"vlans": {"vlan7": {"id": 7, "link": "eno1"}}},
        {"ethernets": {"lan0": {"match": {"macaddress": "00:00:5e:00:53:21"}, "set-name": "x"}}},
    ],
)
def test_a_network_that_does_not_hold_together_is_refused(change: dict[str, Any]) -> None:
    port = {"match": {"macaddress": "00:00:5e:00:53:21"}, "set-name": "lan0"}
    with pytest.raises(ValidationError):
        Network.model_validate({"ethernets": {"lan0": port}, **change})
