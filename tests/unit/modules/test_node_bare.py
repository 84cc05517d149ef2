"""What a node is stripped of: what the product brought by its own record, and nothing of others."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.modules.loading import load, load_utils

if TYPE_CHECKING:
    from types import ModuleType

CA = "-----BEGIN CERTIFICATE-----\nc2l0ZQ==\n-----END CERTIFICATE-----\n"
BROUGHT = [
    "chrony",
    "containerd",
    "docker.io",
    "htop-lib",
    "iptables",
    "nginx",
    "nvidia-driver-535",
    "runc",
]
OURS = {
    "etc/appliance/ca.crt": CA,
    "etc/appliance/packages.list": "deb\n",
    "etc/appliance/tls/registry.key": "key\n",
    "etc/docker/daemon.json": "{}",
    "etc/sysctl.d/90-appliance.conf": "x\n",
    "etc/systemd/system/kubelet.service": "x\n",
    "opt/cni/bin/bridge": "x",
    "usr/local/bin/kubeadm": "x",
    "usr/local/sbin/appliance-pod-guard": "x",
    "var/lib/appliance/apt/lists/x": "x",
    "var/lib/appliance/bundles/0f/manifest.json": "x",
    "var/lib/appliance/runai/before-2.7/dump.sql": "dump",
    "var/lib/appliance/runai/bundle.json": "{}",
    "var/lib/appliance/etcd-snapshots/20260101T000000Z-rack.db": "snapshot",
    "var/lib/appliance/nfs-export.json": json.dumps({"id": "0f" * 16}),
    "srv/runai/appliance-export.json": json.dumps({"id": "0f" * 16}),
    "srv/runai/volume/data": "data",
    "var/lib/appliance/archive/passports/w1.json": "{}",
    "var/lib/appliance/lock/last": "x\n",
    "var/lib/docker/overlay2/x": "x",
    "var/lib/kubelet/config.json": "login",
    "var/lib/containerd/io.containerd.content.v1.content/x": "x",
}
THEIRS = {
    "etc/machine-id": "m1\n",
    "etc/systemd/system/their.service": "x\n",
    "etc/chrony/chrony.conf": "x\n",
    "opt/cni/bin/their-plugin": "x",
    "usr/local/bin/their-tool": "x",
    "home/ada/file": "x",
    "proc/self/mountinfo": "36 35 98:0 / / rw shared:1 - ext4 none rw\n"
    "37 36 0:4 / /run/docker/netns/default rw - nsfs nsfs rw\n",
}
DATA = {name for name in OURS if name.startswith(("srv/", "var/lib/appliance/etcd-"))} | {
    "var/lib/appliance/runai/before-2.7/dump.sql",
    "var/lib/appliance/nfs-export.json",
}
# Beside data they prove whose the data are.
EVIDENCE = {"etc/appliance/ca.crt", "var/lib/appliance/packages.json"}
LAST = {"var/lib/appliance/archive/passports/w1.json", "var/lib/appliance/lock/last"}
HOSTS = (
    "127.0.0.1 localhost\n# BEGIN appliance\n198.18.7.11 cp1\n# END appliance\n10.0.0.1 theirs\n"
)
FSTAB = "/dev/a / ext4 defaults 0 1\n# appliance: no swap: /dev/b none swap sw 0 0\n"
RULES = """*filter
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -s 10.0.0.0/8 -j ACCEPT
-A DOCKER-USER -j RETURN
COMMIT
"""
REMOVED_RULES = """*filter
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
-D FORWARD -j DOCKER-USER
-D FORWARD -o docker0 -j DOCKER
-X DOCKER
-X DOCKER-USER
COMMIT
"""


class Killed(BaseException):
    """The run was killed before this program did anything."""


@pytest.fixture(scope="module")
def bare() -> ModuleType:
    return load("node_bare", role="node_bare")


class Machine:
    """Plays dpkg, apt, systemctl, ip and iptables on a folder; rm is the real one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.installed = {*BROUGHT, "htop", "libc6", "linux-image-5.4"}
        self.needs = {"htop": {"htop-lib"}}
        self.needs_one = dict[str, set[str]]()
        self.dpkg_fails = False
        self.owners = dict[str, str]()
        self.held = {"docker.io", "linux-image-5.4", "their-package"}
        self.active = {"kubelet.service", "docker.service", "kubepods.slice"}
        self.rules = RULES
        self.changed: list[str] = []
        self.kill_at: int | None = None
        record = {
            "brought": BROUGHT,
            "replaced": ["systemd-timesyncd"],
            "instead": ["chrony"],
            "held": ["docker.io", "linux-image-5.4"],
        }
        files = {**OURS, **THEIRS, "etc/hosts": HOSTS, "etc/fstab": FSTAB}
        files["var/lib/appliance/packages.json"] = json.dumps(record)
        for name, text in files.items():
            self.put(name, text)
        self.put(
            "var/lib/docker/containers/0e/config.v2.json",
            json.dumps({"Config": {"Labels": {"io.kubernetes.pod.uid": "u1"}}}),
        )
        (root / "sys/class/net/docker0").mkdir(parents=True)

    def put(self, name: str, text: str = "x") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def files(self) -> set[str]:
        found = (path for path in self.root.rglob("*") if path.is_file() or path.is_symlink())
        return {str(path.relative_to(self.root)) for path in found}

    def which(self, name: str) -> str | None:
        return None if "legacy" in name or "iptables" not in self.installed else f"/usr/sbin/{name}"

    def __call__(self, argv: list[str], data: str | None = None) -> tuple[int, str, str]:
        if argv[0] == "dpkg-query":
            return self._dpkg(argv)
        if argv[0] == "systemctl" and argv[1].startswith("is-"):
            yes = argv[2] in self.active
            words = ("active", "inactive") if argv[1] == "is-active" else ("enabled", "disabled")
            return 0, words[0] if yes else words[1], ""
        if argv[0] == "apt-get" and "-s" in argv:
            return 0, "".join(f"Purg {name} [1]\n" for name in self._goes(argv)), ""
        if argv[0] == "iptables-nft-save":
            return 0, self.rules, ""
        if len(self.changed) == self.kill_at:
            raise Killed
        self.changed.append(" ".join(argv))
        return self._change(argv, data)

    def _dpkg(self, argv: list[str]) -> tuple[int, str, str]:
        if self.dpkg_fails:
            return 2, "", "dpkg-query: error: failed to open package info file"
        if argv[1] == "-S":
            return (0 if argv[2] in self.owners else 1), self.owners.get(argv[2], ""), "no path"
        rows = [f"{n} {'h' if n in self.held else 'i'}i " for n in sorted(self.installed)]
        return 0, "\n".join(rows) + "\n", ""

    def _goes(self, argv: list[str]) -> set[str]:
        names = set(argv[argv.index("purge") + 1 :]) & self.installed
        names |= {n for n, needs in self.needs.items() if needs & names}
        return names | {n for n, needs in self.needs_one.items() if needs <= names}

    def _change(self, argv: list[str], data: str | None) -> tuple[int, str, str]:
        if argv[0] == "rm":
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        if argv[0] == "apt-get":
            assert not self._goes(argv) - set(BROUGHT), "a package of others goes with ours"
            gone = self._goes(argv)
            assert "docker.io" not in gone or "docker.service" not in self.active, "it runs"
            self.installed -= gone
        elif argv[0] == "apt-mark":
            self.held -= set(argv[2:])
        elif argv[0] == "systemctl":
            self.active -= set(argv[1:])
        elif argv[0] == "ip":
            os.rmdir(self.root / "sys/class/net/docker0")  # noqa: PTH106
        elif argv[0] == "umount":
            assert argv[-1] == "/run/docker/netns/default"
            self.put("proc/self/mountinfo", "36 35 98:0 / / rw shared:1 - ext4 none rw\n")
        else:
            assert "iptables" in self.installed, "its program is purged"
            assert data == REMOVED_RULES
            self.rules = "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n"
        return 0, "", ""


def strip(bare: ModuleType, machine: Machine, **wanted: Any) -> Any:
    want = {
        **{"machine_id": "m1", "ca_certificate": CA, "export": "/srv/runai"},
        **{"lose_data": False, "forget": False, **wanted},
    }
    found = bare.Bare(machine.root, machine, machine.which, want)
    why = found.refusal()
    assert not why, why
    found.carry_out()
    return found


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


def test_a_folder_that_a_package_of_others_has_is_not_emptied(
    bare: ModuleType, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    machine.put("etc/nginx/sites-enabled/theirs")
    machine.installed.add("nginx-light")
    machine.owners["/etc/nginx"] = "nginx-light: /etc/nginx"
    strip(bare, machine)
    assert "nginx" not in machine.installed
    assert "etc/nginx/sites-enabled/theirs" in machine.files()


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


def test_a_record_that_is_none_stops_it(bare: ModuleType, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put("var/lib/appliance/packages.json", '{"brought": ["-o", 1]}')
    with pytest.raises(bare.BareError, match="is not readable"):
        strip(bare, machine)
    assert machine.changed == []


brought = load_utils("appliance_brought")


def test_only_what_came_with_a_run_and_is_in_the_bundle_was_brought(tmp_path: Path) -> None:
    record = tmp_path / "packages.json"
    brought.begin(["libc6", "systemd-timesyncd"], record)
    brought.begin(["libc6", "half"], record)  # a killed run: what was before stays known
    brought.end(
        ["libc6", "chrony", "docker.io", "htop"], {"chrony", "docker.io"}, ["chrony"], record
    )
    brought.held(["docker.io"], record)
    brought.end(["more"], {"more"}, [], record)  # nothing was begun
    assert brought.read(record) == {
        "brought": ["chrony", "docker.io"],
        "replaced": ["systemd-timesyncd"],
        "instead": ["chrony"],
        "held": ["docker.io"],
    }


def test_the_index_that_apt_read_names_the_bundles_packages(tmp_path: Path) -> None:
    (tmp_path / "x_Packages").write_text("Package: a\nVersion: 1\n\nPackage: b\n")
    said = {str(tmp_path / "x_Packages"): (tmp_path / "x_Packages").read_text()}
    names = brought.index_names(lambda argv: (0, said[argv[-1]], ""), tmp_path)
    assert names == {"a", "b"}
    with pytest.raises(ValueError, match="cannot be read"):
        brought.index_names(lambda _: (1, "", "no"), tmp_path)
