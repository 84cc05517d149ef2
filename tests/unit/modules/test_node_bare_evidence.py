"""What is not proved to be ours, or serves others, or what a machine needs: it stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.modules.bare_machine import BROUGHT, EVIDENCE, Machine, strip
from tests.unit.modules.loading import load

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="module")
def bare() -> ModuleType:
    return load("node_bare", role="node_bare")


SERVED_TO_OTHERS = {
    "an export": ("nfs-kernel-server", "etc/exports", "# none\n/srv/theirs *(ro)\n"),
    "a file of exports": ("nfs-kernel-server", "etc/exports.d/theirs.exports", "/srv *(ro)\n"),
    "a web site": ("nginx", "etc/nginx/sites-enabled/theirs", "server {}\n"),
    "a web server's configuration": ("nginx", "etc/nginx/conf.d/theirs.conf", "server {}\n"),
    "a container elsewhere": ("docker.io", "data/docker/containers/0f/config.v2.json", "{}"),
}


@pytest.mark.parametrize("case", SERVED_TO_OTHERS)
def test_a_package_that_serves_others_stays_and_is_named(
    bare: ModuleType, tmp_path: Path, case: str
) -> None:
    package, path, text = SERVED_TO_OTHERS[case]
    machine = Machine(tmp_path)
    brought = [*BROUGHT, "nfs-kernel-server"]
    machine.put("var/lib/appliance/packages.json", json.dumps({"brought": brought}))
    machine.installed |= {"nfs-kernel-server"}
    machine.put("etc/nginx/conf.d/appliance.conf")
    machine.put("etc/exports", "# nothing\n")
    machine.put("etc/docker/daemon.json", '{"data-root": "/data/docker"}')
    machine.put(path, text)
    found = strip(bare, machine)
    stays = {"nfs-kernel-server", "nginx", "docker.io"} & machine.installed
    assert stays == {package}
    assert path in machine.files()
    assert package in dict(found.survey().stays())
    assert machine.files() >= EVIDENCE
    assert not {"etc/nginx/conf.d/appliance.conf"} & machine.files()


def test_a_dpkg_that_does_not_answer_stops_all_of_it(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put("var/lib/docker/containers/0f/config.v2.json", "{}")
    machine.dpkg_fails = True
    before = machine.files()
    with pytest.raises(OSError, match="dpkg does not list the packages"):
        strip(bare, machine, lose_data=True)
    assert (machine.changed, machine.files()) == ([], before)


def test_a_record_that_names_what_the_machine_needs_locks_nobody_out(
    bare: ModuleType, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    vital = ["openssh-server", "python3", "python3.8", "sudo", "systemd", "bash", "netplan.io"]
    machine.put("var/lib/appliance/packages.json", json.dumps({"brought": [*vital, "nginx"]}))
    machine.installed |= set(vital)
    found = bare.Bare(machine.root, machine, machine.which, {"export": ""}).survey()
    assert found.packages() == ["nginx"]
    assert (
        "bash, netplan.io, openssh-server, python3",
        "the machine boots or is reached by it",
    ) in (found.stays())


def test_a_package_of_others_that_needs_one_of_two_stays(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.installed.add("their-tool")
    machine.needs_one = {"their-tool": {"containerd", "docker.io"}}
    strip(bare, machine)
    assert "their-tool" in machine.installed
    assert machine.installed & {"containerd", "docker.io"}
    assert "nginx" not in machine.installed


def test_a_package_for_which_apt_would_install_another_stays(
    bare: ModuleType, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    machine.comes = {"nginx": "apache2"}
    strip(bare, machine)
    assert "nginx" in machine.installed
    assert "docker.io" not in machine.installed


def test_a_folder_that_a_package_of_others_has_is_not_emptied(
    bare: ModuleType, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    machine.put("etc/nginx/snippets/theirs")
    machine.installed.add("nginx-light")
    machine.owners["/etc/nginx"] = "nginx-light: /etc/nginx"
    strip(bare, machine)
    assert "nginx" not in machine.installed
    assert "etc/nginx/snippets/theirs" in machine.files()


def test_without_the_sites_ca_programs_that_others_may_have_stay(
    bare: ModuleType, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "etc/appliance/ca.crt").unlink()
    machine.put("usr/local/bin/helm")
    found = strip(bare, machine, lose_data=True)
    assert {"usr/local/bin/helm", "usr/local/bin/kubeadm", "opt/cni/bin/bridge"} <= machine.files()
    assert "usr/local/sbin/appliance-pod-guard" not in machine.files()
    assert found.survey().document()["files"] == []


def test_etcds_data_before_a_restore_are_named_and_go_where_data_are_given_up(
    bare: ModuleType, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    aside = "var/lib/etcd.before-0f0f0f0f0f0f/member/snap/db"
    machine.put(aside, "every Secret")
    machine.put("var/lib/etcd.before-theirs/notes")
    found = strip(bare, machine)
    assert aside in machine.files()
    document = found.survey().document()
    assert ["/var/lib/etcd.before-0f0f0f0f0f0f", "etcd's data before a restore"] in document["data"]
    assert "before-0f" not in document["newest_backup"][0]
    strip(bare, machine, lose_data=True)
    assert aside not in machine.files()
    assert "var/lib/etcd.before-theirs/notes" in machine.files()


def test_a_comment_in_another_encoding_is_kept_as_it_is(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    hosts = b"# K\xf6ln\n# BEGIN appliance\n198.18.7.11 cp1\n# END appliance\n"
    (tmp_path / "etc/hosts").write_bytes(hosts)
    strip(bare, machine)
    assert (tmp_path / "etc/hosts").read_bytes() == b"# K\xf6ln\n"


def test_marks_in_the_wrong_order_are_no_block_of_ours(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    text = "# END appliance\n10.0.0.1 theirs\n# BEGIN appliance\n"
    machine.put("etc/hosts", text)
    found = strip(bare, machine)
    assert (tmp_path / "etc/hosts").read_text() == text
    assert "/etc/hosts" not in found.survey().document()["files"]
