"""The reference pages agree with the code: exit codes, ports, sizes, and the card to print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from appliance import errors
from appliance.adapters.hardware.redfish_session import HTTPS
from appliance.adapters.local.content import list_releases, load_release
from appliance.adapters.local.hardware_models import load_role_minima
from appliance.cli.exit_codes import EXIT_CODES as OF_THE_CODE
from appliance.cli.exit_codes import TERMINATED
from appliance.model.bundle.release.runai_versions import supported_range
from appliance.model.checks.hardware.trials.stream import PORT as STREAM_PORT
from appliance.model.checks.nodes import capacity
from appliance.model.checks.nodes.network import CONTROL_PLANE_PORTS, NODE_PORTS, VXLAN_PORT
from appliance.model.components.control_plane.immutable_settings import API_PORT
from appliance.model.site.runai_settings import Runai
from appliance.model.site.settings import Nfs, SiteSettings, Ssh
from appliance.model.site.shared_storage import NFS_PORT, RPCBIND_PORT
from tests.contract import tree
from tests.contract.page_words import table
from tests.contract.runbooks import OPERATIONS

EXIT_CODES = OPERATIONS / "exit-codes.md"
REQUIREMENTS = OPERATIONS / "requirements.md"
# Health and metrics for the node itself; the API server asks the kubelet on another port.
ON_ONE_NODE = {10248, 10249, 10256, 10257, 10259}
NTP, DNS = 123, 53


def _classes(of: type[errors.ApplianceError]) -> list[type[errors.ApplianceError]]:
    return [of, *(found for inner in of.__subclasses__() for found in _classes(inner))]


def test_the_page_of_exit_codes_lists_those_of_the_code_and_no_other() -> None:
    raised = {found.exit_code for found in _classes(errors.ApplianceError)}
    rows = table(EXIT_CODES, "exit")
    listed = [int(row[0]) for row in rows]
    assert listed == sorted({0, click.UsageError.exit_code, TERMINATED, *raised})
    assert listed == list(OF_THE_CODE)
    assert {len(row) for row in rows} == {4}, "every code has a meaning and what to do"


def test_the_page_of_exit_codes_says_when_nodes_are_unchanged() -> None:
    unchanged = {int(row[0]) for row in table(EXIT_CODES, "exit") if row[2] == "no"}
    assert unchanged == {
        click.UsageError.exit_code,
        errors.Refused.exit_code,
        errors.NodeUnreachable.exit_code,
        errors.NotHealthy.exit_code,
    }


def _ports(rows: list[list[str]], column: int) -> set[str]:
    return {row[column] for row in rows}


def test_the_page_of_requirements_lists_every_port_between_machines() -> None:
    rows = table(REQUIREMENTS, "from")
    assert {len(row) for row in rows} == {5}
    expected = {
        f"{Ssh().port}/tcp",
        f"{HTTPS}/tcp",
        f"{API_PORT}/tcp",
        f"{_default('api_balancer', 'api_balancer_port')}/tcp",
        *(f"{port}/tcp" for port in CONTROL_PLANE_PORTS if port not in ON_ONE_NODE),
        *(f"{port}/tcp" for port in NODE_PORTS if port not in ON_ONE_NODE),
        f"{VXLAN_PORT}/udp",
        f"{_default('container_registry', 'container_registry_port')}/tcp",
        f"{_default('artifact_server', 'artifact_server_port')}/tcp",
        f"{NFS_PORT}/tcp",
        f"{RPCBIND_PORT}/tcp",
        f"{STREAM_PORT}/tcp",
        f"{NTP}/udp",
        f"{DNS}/udp",
        f"{DNS}/tcp",
        "ICMP echo",
        "VRRP",
    }
    assert _ports(rows, 2) == expected


def test_the_ports_of_one_node_are_those_that_a_check_wants_free() -> None:
    rows = table(REQUIREMENTS, "on")
    wanted = {**CONTROL_PLANE_PORTS, **NODE_PORTS}
    assert _ports(rows, 1) == {f"{port}/tcp" for port in ON_ONE_NODE}
    for _, port, process in rows:
        # The kernel cuts names after 15 letters.
        assert process.partition(",")[0][:15] == wanted[int(port.removesuffix("/tcp"))]


def test_the_ports_of_programs_without_a_setting_are_the_well_known_ones() -> None:
    """chrony and dnsmasq are given no port, so they use their own: 123 and 53."""
    for role in ("time_sync", "site_dns"):
        (template,) = tree.under(f"roles/{role}/templates")
        assert not re.search(r"(?m)^(port|cmdport)\b", tree.read(template)), template


def test_every_use_of_vrrp_has_a_row() -> None:
    roles = {
        path.parts[1]
        for path in tree.under("roles")
        if path.suffix == ".j2" and "vrrp_instance" in tree.read(path)
    }
    assert len(roles) == len([row for row in table(REQUIREMENTS, "from") if row[2] == "VRRP"])


def test_the_keys_that_change_a_port_are_keys_of_a_site() -> None:
    named = {row[4].strip("`") for row in table(REQUIREMENTS, "from")} - {"-"}
    for key in named:
        model: Any = SiteSettings
        *sections, last = key.split(".")
        for section in sections:
            model = model.model_fields[section].annotation
        assert last in model.model_fields, key


def test_the_sizes_are_those_of_the_checks() -> None:
    system = load_role_minima()["system_nodes"]
    expected = {
        "control-plane node, processors": f"{capacity.CONTROL_PLANE_CPUS}",
        "control-plane node, memory": f"{capacity.CONTROL_PLANE_BYTES // 1024**2} MiB",
        "any other member, memory": f"{capacity.MEMBER_BYTES // 1024**2} MiB",
        "system node, processors": f"{system.cpus}",
        "system node, memory": f"{system.memory_mb} MB",
        "system node, disk": f"{system.disk_gb} GB",
        "shared storage, free before first use": f"{_of(Nfs, 'minimum_free_gb')} GB",
        "where Run:ai's bundle is unpacked, free": f"{_of(Runai, 'minimum_free_gb')} GB",
        "file systems of the kubelet and of Docker, free": f"{capacity.EVICTION_PERCENT} %",
        "each file system, free inodes": f"{capacity.INODES_PERCENT} %",
    }
    assert {row[0]: row[1] for row in table(REQUIREMENTS, "what | at least")} == expected
    margin = f"{capacity.MARGIN_BYTES // 1024**2} MiB"
    assert margin in REQUIREMENTS.read_text(encoding="utf-8")


def _default(role: str, variable: str) -> object:
    return tree.load(Path(f"roles/{role}/defaults/main.yml"))[variable]


def _of(model: Any, field: str) -> object:
    return model.model_fields[field].default


def test_what_is_not_supported_names_every_release_and_the_range_of_runai() -> None:
    text = (OPERATIONS / "not-supported-yet.md").read_text(encoding="utf-8")
    releases = list_releases()
    assert set(re.findall(r"`(k8s-[\w.-]+)`", text)) == set(releases)
    for name in releases:
        assert f"Run:ai {supported_range(load_release(name).versions.kubernetes)}" in text
