"""The schemas for editors: they accept good sites, and say of bad ones what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from appliance.model.site.files.schema import hosts_schema, node_schema, site_schema
from appliance.model.site.groups import GROUPS
from tests.site_cases import EXAMPLE, GOOD, KNOWN

SETTINGS = Path("group_vars", "all", "site.yml")


def said(schema: dict[str, Any], data: object) -> list[str]:
    return [
        f"{'.'.join(map(str, fault.absolute_path))}: {fault.message}"
        for fault in Draft202012Validator(schema).iter_errors(data)
    ]


def settings(**changes: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((GOOD / SETTINGS).read_text())
    return {**loaded, **changes}


@pytest.mark.parametrize("site", [GOOD, EXAMPLE])
def test_good_sites_fit(site: Path) -> None:
    assert said(site_schema(KNOWN), yaml.safe_load((site / SETTINGS).read_text())) == []
    assert said(hosts_schema(), yaml.safe_load((site / "hosts.yml").read_text())) == []
    for file in sorted((site / "host_vars").iterdir()):
        assert said(node_schema(KNOWN), yaml.safe_load(file.read_text())) == [], file


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"gpu": {"driver": "hots"}},
            ["gpu.driver: 'hots' is not one of ['host', 'container', 'preinstalled']"],
        ),
        ({"gpu": None, "runai": None, "nfs": None}, []),
        ({"gpu": 5}, ["gpu: 5 is not of type 'object', 'null'"]),
        (
            {"appliance_release": "k8s-9"},
            ["appliance_release: 'k8s-9' is not one of ['k8s-1.23.5-r1']"],
        ),
        (
            {"operating_system": "ubuntu-20.4"},
            ["operating_system: 'ubuntu-20.4' is not one of ['debian-12', 'ubuntu-20.04']"],
        ),
        ({"site_name": 7}, ["site_name: 7 is not of type 'string', 'null'"]),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(
    changes: dict[str, Any], expected: list[str]
) -> None:
    assert said(site_schema(KNOWN), settings(**changes)) == expected


@pytest.mark.parametrize("address", ["198.51.100.256", "198.51.100", "gpu1", "1.2.3.4/24"])
def test_what_is_no_address_is_refused(address: str) -> None:
    (fault,) = said(site_schema(KNOWN), settings(dns_servers=[address]))
    assert fault.startswith(f"dns_servers.0: '{address}' does not match")
    (fault,) = said(node_schema(KNOWN), {"address": "198.51.100.1/24", "bmc_address": address})
    assert fault.startswith(f"bmc_address: '{address}' does not match")


def test_an_unknown_model_is_refused_and_none_is_allowed() -> None:
    node = {"address": "198.51.100.1/24"}
    assert said(node_schema(KNOWN), {**node, "hardware": None}) == []
    (fault,) = said(node_schema(KNOWN), {**node, "hardware": "quanta/d43n"})
    assert "'quanta/d43n-3u'" in fault


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ({"gpu_worker": {}}, "'gpu_worker' was unexpected"),
        ({"gpu_workers": {"hosts": {"GPU_1": {}}}}, "'GPU_1' does not match"),
        ({"gpu_workers": {"hosts": {"gpu1": {"address": "x"}}}}, "{'address': 'x'}"),
        ({"gpu_workers": {"children": {}}}, "'children' was unexpected"),
    ],
)
def test_hosts_yml_has_known_groups_and_bare_nodes(hosts: dict[str, Any], words: str) -> None:
    (fault,) = said(hosts_schema(), {"all": {"children": hosts}})
    assert words in fault


def test_every_key_of_every_schema_has_a_description() -> None:
    lacking = []

    def look(schema: dict[str, Any], where: str) -> None:
        for name, value in schema.get("properties", {}).items():
            if "description" not in value:
                lacking.append(f"{where}.{name}")
            look(value, f"{where}.{name}")
        for name, value in schema.get("$defs", {}).items():
            look(value, name)

    look(site_schema(KNOWN), "site")
    look(node_schema(KNOWN), "node")
    look(hosts_schema(), "hosts")
    assert lacking == []
    assert set(hosts_schema()["properties"]["all"]["properties"]["children"]["properties"]) == set(
        GROUPS
    )
