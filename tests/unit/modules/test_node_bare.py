"""What a node is stripped of: what the product brought by its own record, and nothing of others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.modules.bare_machine import (
    BROUGHT,
    CA,
    DATA,
    EVIDENCE,
    LAST,
    THEIRS,
    UNMOUNTS,
    Killed,
    Machine,
    strip,
)
from tests.unit.modules.loading import load, load_utils

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="module")
def bare() -> ModuleType:
    return load("node_bare", role="node_bare")


def test_what_the_product_brought_goes_and_nothing_of_others(
    bare: ModuleType, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    strip(bare, machine)
    kept = {"chrony", "htop", "htop-lib", "libc6", "linux-image-5.4", "nvidia-driver-535"}
    assert machine.installed == kept
    assert machine.held == {"their-package"}
    assert machine.files() == {*THEIRS, *DATA, *LAST, *EVIDENCE, "etc/hosts", "etc/fstab"}
    assert (tmp_path / "etc/hosts").read_text() == "127.0.0.1 localhost\n10.0.0.1 theirs\n"
    assert "\n/dev/b none swap" in (tmp_path / "etc/fstab").read_text()
    assert "DOCKER" not in machine.rules
    assert machine.active == set()
    assert not (tmp_path / "sys/class/net/docker0").exists()
    changed = len(machine.changed)
    strip(bare, machine)
    assert len(machine.changed) == changed


def test_a_mount_whose_path_begins_as_dockers_folder_stays(
    bare: ModuleType, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    mount = "38 36 98:16 / /var/lib/docker-registry rw - ext4 /dev/vdb rw\n"
    (tmp_path / "var/lib/docker-registry").mkdir()
    with (tmp_path / "proc/self/mountinfo").open("a") as stream:
        stream.write(mount)
    machine.put(UNMOUNTS)
    strip(bare, machine)
    assert "docker.io" not in machine.installed
    assert mount in (tmp_path / "proc/self/mountinfo").read_text()


def test_data_and_evidence_go_where_they_are_given_up(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    strip(bare, machine, lose_data=True)
    kept = {*THEIRS, *LAST, "etc/hosts", "etc/fstab"}
    assert machine.files() == kept
    assert (tmp_path / "srv/runai").is_dir(), "the folder itself may be of others"
    strip(bare, machine, lose_data=True, forget=True)
    assert machine.files() == kept - LAST
    assert not (tmp_path / "var/lib/appliance").exists()
    assert not (tmp_path / "etc/appliance").exists()


def test_data_that_stayed_can_be_given_up_later(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    strip(bare, machine)
    strip(bare, machine, lose_data=True)
    assert machine.files() & (DATA | EVIDENCE) == set()


def test_a_timers_run_ends_before_what_it_writes_goes(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    units = [f"appliance-timed-backup.{kind}" for kind in ("timer", "service")]
    machine.active |= set(units)
    strip(bare, machine, lose_data=True)
    ended = [line.split()[-1] for line in machine.changed if "appliance-timed" in line]
    assert (machine.active & set(units), ended[:2]) == (set(), units)
    assert not (tmp_path / "var/backups/appliance").exists()


def test_among_a_timers_backups_files_of_others_stay(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put("var/backups/appliance/their.backup")
    strip(bare, machine, lose_data=True)
    assert [p.name for p in (tmp_path / "var/backups/appliance").iterdir()] == ["their.backup"]


def test_killed_before_any_program_the_same_run_ends_it(bare: ModuleType, tmp_path: Path) -> None:
    whole = Machine(tmp_path / "whole")
    strip(bare, whole, lose_data=True, forget=True)
    for number in range(len(whole.changed)):
        machine = Machine(tmp_path / str(number))
        machine.kill_at = number
        with pytest.raises(Killed):
            strip(bare, machine, lose_data=True, forget=True)
        machine.kill_at = None
        strip(bare, machine, lose_data=True, forget=True)
        assert machine.files() == whole.files(), whole.changed[number]
        assert machine.installed == whole.installed, whole.changed[number]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"etc/machine-id": "m2\n"}, "machine-id m2, expected m1"),
        ({"etc/appliance/ca.crt": CA.replace("c2l", "b3R")}, "the CA of another site"),
        ({"etc/kubernetes/kubelet.conf": "x"}, "still a member"),
        ({"var/lib/etcd/member/wal": "x"}, "still a member"),
    ],
)
def test_another_machine_and_a_member_are_refused(
    bare: ModuleType, tmp_path: Path, fault: dict[str, str], said: str
) -> None:
    machine = Machine(tmp_path)
    for name, text in fault.items():
        machine.put(name, text)
    before = machine.files()
    want = {"machine_id": "m1", "ca_certificate": CA, "export": "", "lose_data": True}
    found = bare.Bare(machine.root, machine, machine.which, want)
    assert said in found.refusal()
    assert (machine.changed, machine.files()) == ([], before)


@pytest.mark.parametrize("name", ["containers/0f", "volumes/theirs"])
def test_a_container_of_others_keeps_docker_and_is_named(
    bare: ModuleType, tmp_path: Path, name: str
) -> None:
    machine = Machine(tmp_path)
    machine.put(f"var/lib/docker/{name}/config")
    found = strip(bare, machine, lose_data=True)
    assert {"docker.io", "containerd", "runc"} <= machine.installed
    assert "nginx" not in machine.installed
    assert machine.files() >= EVIDENCE
    assert "etc/docker/daemon.json" in machine.files()
    (stays,) = [why for what, why in found.survey().stays() if what == "docker.io"]
    assert f"in /var/lib/docker/{name.partition('/')[0]}" in stays


def test_without_the_sites_ca_no_package_goes(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "etc/appliance/ca.crt").unlink()
    strip(bare, machine, lose_data=True)
    assert machine.installed == {*BROUGHT, "htop", "libc6", "linux-image-5.4"}
    assert "etc/docker/daemon.json" in machine.files()
    assert "srv/runai/volume/data" in machine.files()


def test_an_export_of_another_id_is_no_data_of_ours(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put("srv/runai/appliance-export.json", json.dumps({"id": "1f" * 16}))
    strip(bare, machine, lose_data=True)
    assert "srv/runai/volume/data" in machine.files()


def test_a_folder_behind_a_link_or_a_mount_is_not_emptied(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root")
    there = tmp_path / "elsewhere"
    there.mkdir()
    (there / "data").write_text("theirs")
    bundles = tmp_path / "root/var/lib/appliance/bundles"
    subprocess.run(["rm", "-r", str(bundles)], check=True)
    bundles.symlink_to(there)
    strip(bare, machine)
    assert (there / "data").read_text() == "theirs"
    machine = Machine(tmp_path / "second")
    path = tmp_path / "second/var/lib/appliance/apt/lists"
    (tmp_path / "second/proc/self/mountinfo").write_text(
        f"36 35 98:0 / / rw shared:1 - ext4 none rw\n37 36 98:1 / {path} rw - ext4 none rw\n"
    )
    with pytest.raises(bare.BareError, match="is mounted below"):
        strip(bare, machine)
    assert (path / "x").is_file()


def test_a_site_that_a_command_holds_is_not_forgotten(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put("var/lib/appliance/lock/holder", "run\n")
    with pytest.raises(bare.BareError, match="a command holds this site"):
        strip(bare, machine, forget=True)
    assert machine.files() >= LAST
    assert machine.changed == [], "the other command may be installing"


def test_a_record_that_is_none_stops_it(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put("var/lib/appliance/packages.json", '{"brought": ["-o", 1]}')
    with pytest.raises(bare.BareError, match="is not readable"):
        strip(bare, machine)
    assert machine.changed == []


brought = load_utils("appliance_brought")


def test_only_what_came_with_a_run_and_is_in_the_bundle_was_brought(tmp_path: Path) -> None:
    record, planned = tmp_path / "packages.json", tmp_path / "planned"
    planned.write_text("more\n")  # of a run before
    brought.begin(["libc6", "systemd-timesyncd"], record, planned)
    planned.write_text("chrony\ndocker.io\n")
    # A killed run: what was before stays known, and what it was about to install.
    brought.begin(["libc6", "half"], record, planned)
    brought.end(
        ["libc6", "chrony", "docker.io", "htop", "nfs-common", "more"],
        {"chrony", "docker.io", "nfs-common", "more"},
        ["chrony"],
        record,
        planned,
    )
    brought.held(["docker.io"], record)
    brought.end(["more"], {"more"}, [], record, planned)  # nothing was begun
    assert brought.read(record) == {
        "brought": ["chrony", "docker.io"],
        "replaced": ["systemd-timesyncd"],
        "instead": ["chrony"],
        "held": ["docker.io"],
    }


def test_a_run_that_was_killed_before_apt_began_brought_nothing(tmp_path: Path) -> None:
    """A customer installs packages that are in the bundle, too, before the command runs again."""
    record, planned = tmp_path / "packages.json", tmp_path / "planned"
    brought.begin(["libc6"], record, planned)
    brought.end(["libc6", "nfs-common"], {"nfs-common"}, ["nfs-common"], record, planned)
    assert brought.read(record) == {}


def test_the_index_that_apt_read_names_the_bundles_packages(tmp_path: Path) -> None:
    (tmp_path / "x_Packages").write_text("Package: a\nVersion: 1\n\nPackage: b\n")
    said = {str(tmp_path / "x_Packages"): (tmp_path / "x_Packages").read_text()}
    names = brought.index_names(lambda argv: (0, said[argv[-1]], ""), tmp_path)
    assert names == {"a", "b"}
    with pytest.raises(ValueError, match="cannot be read"):
        brought.index_names(lambda _: (1, "", "no"), tmp_path)
