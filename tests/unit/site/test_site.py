"""What a loaded site answers, and what the check leaves alone."""

import dataclasses
import os
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.site.files import check_site, load_site
from appliance.errors import ConfigError
from appliance.model.site.groups import GROUPS, OVERLAPS
from tests import samples
from tests.site_cases import EXAMPLE, KNOWN, copy_of_good


def test_the_example_is_the_guides_two_server_appliance() -> None:
    site = load_site(EXAMPLE, known=KNOWN)
    assert site.name == "example"
    assert [(node.name, node.hardware) for node in site.nodes] == [
        ("master1", "quanta/s5sp"),
        ("gpu1", "quanta/d43n-3u"),
    ]
    assert site.services_node == site.control_plane[0] == site.node("master1")
    assert site.workers == (site.node("gpu1"),)
    assert site.cluster_members == site.nodes
    assert site.lan_cidrs == (IPv4Network("198.51.100.0/24"),)
    assert (site.registry_name, site.registry_port) == ("registry.appliance.example", 5000)
    assert (site.artifacts_name, site.artifacts_port) == ("artifacts.appliance.example", 9443)
    assert site.endpoint_address == IPv4Address("198.51.100.11")
    # The only legal system node of two servers is the GPU worker.
    assert site.in_group("system_nodes") == (site.node("gpu1"),)
    assert (site.runai_domain, site.runai_address) == ("runai.appliance.example", "198.51.100.21")
    with pytest.raises(KeyError):
        site.node("gpu9")


def test_nodes_of_one_chassis_share_a_bmc_where_each_names_its_system(tmp_path: Path) -> None:
    folder = copy_of_good(tmp_path / "rack7")
    for name, address in (("master1", "203.0.113.11"), ("gpu1", "203.0.113.21")):
        path = folder / "host_vars" / f"{name}.yml"
        text = path.read_text()
        assert text.count(address) == 1
        path.write_text(text.replace(address, f"203.0.113.11\nbmc_system: Node-{name}"))
    site = load_site(folder, known=KNOWN)
    assert {(str(node.bmc_address), node.bmc_system) for node in site.nodes} == {
        ("203.0.113.11", "Node-master1"),
        ("203.0.113.11", "Node-gpu1"),
    }


@pytest.mark.parametrize(
    ("runai", "system", "expected"),
    [
        ({"address": "198.18.7.99"}, ["w1", "w2"], ("198.18.7.99",)),
        ({}, ["w1", "w2"], ("198.18.7.21", "198.18.7.22")),
        ({}, [], ("198.18.7.11",)),
        ({"system_on_control_plane": True}, [], ("198.18.7.11",)),
        ({"system_on_control_plane": True}, ["w2"], ("198.18.7.22",)),
    ],
)
def test_the_backend_answers_on_each_system_node(
    runai: dict[str, Any], system: list[str], expected: tuple[str, ...]
) -> None:
    whole = samples.site(1, 2, runai=runai)
    nodes = tuple(
        replace(node, groups=node.groups | ({"system_nodes"} if node.name in system else set()))
        for node in whole.nodes
    )
    site = replace(whole, nodes=nodes)
    assert site.runai_addresses == expected
    assert site.runai_address == expected[0]


def test_a_directory_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no site at") as refused:
        load_site(tmp_path / "nowhere")
    assert "site init" in (refused.value.hint or "")


def test_a_path_that_ssh_would_not_take_is_refused_and_others_are_not(tmp_path: Path) -> None:
    for good in ("j\u00fcrgen/rack-7", "a=b", "x@y+z"):
        directory = copy_of_good(tmp_path / good)
        assert load_site(directory, known=KNOWN).directory == directory.resolve()
    for bad in ("rack 7", "rack,7", "rack'7", "rack%7", "rack$7"):
        directory = copy_of_good(tmp_path / bad)
        with pytest.raises(ConfigError, match="cannot use the path") as refused:
            load_site(directory, known=KNOWN)
        assert "choose a path" in (refused.value.hint or "")


def test_a_site_is_absolute_wherever_it_is_named_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    monkeypatch.chdir(tmp_path)
    assert load_site(Path("rack7"), known=KNOWN).known_hosts == directory / "known_hosts"


def test_every_pair_of_groups_has_a_rule_with_a_reason() -> None:
    pairs = {frozenset({one, other}) for one in GROUPS for other in GROUPS if one != other}
    assert set(OVERLAPS) == pairs
    assert all(rule.reason for rule in OVERLAPS.values())


def test_anchors_and_merged_keys_are_read_as_ansible_reads_them(tmp_path: Path) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    path = directory / "group_vars/all/site.yml"
    text = path.read_text(encoding="utf-8").replace("dns_servers: [198", "dns_servers: &all [198")
    text = text.replace("ntp_servers: [198.51.100.3]", "ntp_servers: *all")
    text = text.replace(
        "# kubernetes: {ignore_preflight_errors: [], kubelet: {}, kube_proxy: {}}",
        "kubernetes:\n  kubelet: &k {a: 1, b: 2}\n  kube_proxy:\n    <<: *k\n    b: 3",
    )
    path.write_text(text, encoding="utf-8")
    settings = load_site(directory, known=KNOWN).settings
    assert settings.ntp_servers == ("198.51.100.2",)
    assert settings.kubernetes.kube_proxy == {"a": 1, "b": 3}


def test_a_bomb_of_anchors_is_refused_quickly(tmp_path: Path) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    path = directory / "group_vars/all/site.yml"
    bomb = ["kubernetes:", "  kubelet:", "    a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for one, other in zip("abcdefg", "bcdefgh", strict=True):
        bomb.append(f"    {other}: &{other} [{', '.join([f'*{one}'] * 10)}]")
    path.write_text(path.read_text(encoding="utf-8") + "\n".join(bomb) + "\n", encoding="utf-8")
    faults = check_site(directory, known=KNOWN).faults
    assert ["anchors expand to more than" in fault.problem for fault in faults] == [True]


def test_paths_in_the_settings_become_absolute_from_the_sites_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    (directory / "ca.crt").write_text("a certificate", encoding="utf-8")
    (directory / "allowed_signers").write_text("ada ssh-ed25519 AAAA", encoding="utf-8")
    path = directory / "group_vars/all/site.yml"
    text = path.read_text(encoding="utf-8")
    text = text.replace("# private_key: null", "private_key: .appliance/ssh/id_ed25519")
    text = text.replace(
        "# certificates: {organisation_ca: null}", "certificates: {organisation_ca: ca.crt}"
    )
    (directory / "runai-rack.yaml").write_text("a: {b: '{{ c }}'}", encoding="utf-8")
    text = text.replace("# bundle_signers: null", "bundle_signers: allowed_signers")
    text += "runai: {certificate: ../runai.pem, cluster_values_file: runai-rack.yaml}\n"
    path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(directory)
    site = load_site(Path(), known=KNOWN)
    assert site.settings.ssh.private_key == str(directory / ".appliance/ssh/id_ed25519")
    assert site.settings.certificates.organisation_ca == str(directory / "ca.crt")
    assert site.settings.bundle_signers == str(directory / "allowed_signers")
    assert site.settings.runai is not None
    assert site.settings.runai.certificate == str(tmp_path / "runai.pem")
    assert site.settings.runai.cluster_values_file == str(directory / "runai-rack.yaml")


def _with_values_file(directory: Path, named: str) -> list[str]:
    """The faults of a site that names its values file so."""
    path = directory / "group_vars/all/site.yml"
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}runai: {{cluster_values_file: {named}}}\n", encoding="utf-8")
    return [fault.problem for fault in check_site(directory, known=KNOWN).faults]


def test_a_values_file_is_a_regular_file_of_limited_size(tmp_path: Path) -> None:
    directory = copy_of_good(tmp_path / "large")
    (directory / "runai-rack.yaml").write_text("a: b\n" * 200_000)
    (said,) = _with_values_file(directory, "runai-rack.yaml")
    assert "larger than" in said
    directory = copy_of_good(tmp_path / "pipe")
    os.mkfifo(directory / "runai-rack.yaml")
    (said,) = _with_values_file(directory, "runai-rack.yaml")
    assert "not a regular file" in said


def test_a_link_to_a_values_file_within_the_site_is_followed(tmp_path: Path) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    (directory / "runai-1.yaml").write_text("a: b\n")
    (directory / "runai-rack.yaml").symlink_to("runai-1.yaml")
    assert _with_values_file(directory, "runai-rack.yaml") == []
    runai = load_site(directory, known=KNOWN).settings.runai
    assert runai is not None
    assert runai.cluster_values_file == str(directory / "runai-1.yaml")


def test_warnings_stop_nothing_and_name_their_line(tmp_path: Path) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    path = directory / "group_vars/all/site.yml"
    text = path.read_text(encoding="utf-8").replace("[198.51.100.3]", "[]")
    text = text.replace("# private_key: null", "private_key: /nowhere/key")
    path.write_text(text, encoding="utf-8")
    check = check_site(directory, known=KNOWN)
    assert check.site is not None
    assert len(check.site.warnings) == 2
    assert any("ntp" in warning.lower() for warning in check.site.warnings)
    assert any("/nowhere/key" in warning for warning in check.site.warnings)


@pytest.mark.parametrize(
    ("section", "by_model", "words"),
    [
        ("gpu: null\n", False, None),
        ("gpu: {driver: host}\n", False, None),
        ("", False, "gpu1 has GPUs, but the section gpu is absent: pods get no GPUs"),
        ("", True, "gpu1 has GPUs, but the section gpu is absent: pods get no GPUs"),
    ],
)
def test_workers_with_gpus_without_the_section_are_warned_of(
    section: str, by_model: bool, words: str | None, tmp_path: Path
) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    path = directory / "group_vars/all/site.yml"
    path.write_text(path.read_text().replace("gpu: null\n", section))
    known = KNOWN
    if by_model:
        hosts = directory / "hosts.yml"
        text = hosts.read_text().replace("gpu_workers:", "x:").replace("cpu_workers:", "y:")
        hosts.write_text(text.replace("x:", "cpu_workers:").replace("y:", "gpu_workers:"))
        known = dataclasses.replace(KNOWN, gpu_hardware=frozenset({"quanta/d43n-3u"}))
    warnings = check_site(directory, known=known).warnings
    assert [warning.problem for warning in warnings] == ([words] if words else [])
    assert all("gpu: null" in warning.remedy for warning in warnings)


def test_runai_without_a_system_node_and_without_its_bundle_is_warned_of(tmp_path: Path) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    path = directory / "group_vars/all/site.yml"
    path.write_text(path.read_text() + "\nrunai: {vendor_bundle: /nope.tar}\n")
    warnings = check_site(directory, known=KNOWN).warnings
    assert [warning.problem for warning in warnings] == [
        "runai needs a node in the group system_nodes, and there is none",
        "the file /nope.tar does not exist on this machine",
    ]
    (tmp_path / "rack7" / "vendor.tar").write_text("")
    path.write_text(path.read_text().replace("/nope.tar", "vendor.tar"))
    (warning,) = check_site(directory, known=KNOWN).warnings
    assert "system_nodes" in warning.problem


def test_the_files_of_ssh_and_of_the_bundle_are_no_fault(tmp_path: Path) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    for name in ("known_hosts", "known_hosts.old", "known_bundle", "allowed_signers"):
        (directory / name).write_text("198.51.100.11 ssh-ed25519 AAAA\n", encoding="utf-8")
    assert check_site(directory, known=KNOWN).faults == ()


def test_a_lan_in_the_range_of_dockers_bridge_and_a_lone_master_are_warned_of(
    tmp_path: Path,
) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    hosts = directory / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("      hosts:\n        gpu1: {}", "      hosts: {}"))
    (directory / "host_vars/gpu1.yml").unlink()
    (directory / "host_vars/master1.yml").write_text("---\naddress: 172.17.0.11/24\n")
    path = directory / "group_vars/all/site.yml"
    path.write_text(path.read_text().replace("[198.51.100.0/24]", "[172.17.0.0/24]"))
    problems = [warning.problem for warning in check_site(directory, known=KNOWN).warnings]
    assert any("Docker's bridge" in problem for problem in problems)
    assert any("no node is a worker" in problem for problem in problems)
