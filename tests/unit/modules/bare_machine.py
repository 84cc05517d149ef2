"""A machine on a folder, with what the product and others put there, for what strips it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    "var/backups/appliance/rack-20260101T000000Z.backup": "backup",
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
DATA = {
    name for name in OURS if name.startswith(("srv/", "var/backups/", "var/lib/appliance/etcd-"))
} | {
    "var/lib/appliance/runai/before-2.7/dump.sql",
    "var/lib/appliance/nfs-export.json",
}
UNMOUNTS = "var/lib/docker/nuke-graph-directory.sh"
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


class Machine:
    """Plays dpkg, apt, systemctl, ip and iptables on a folder; rm is the real one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.installed = {*BROUGHT, "htop", "libc6", "linux-image-5.4"}
        self.needs = {"htop": {"htop-lib"}}
        self.needs_one = dict[str, set[str]]()
        self.dpkg_fails = False
        self.comes = dict[str, str]()
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
            goes = self._goes(argv)
            comes = [f"Inst {new} (1)\n" for old, new in self.comes.items() if old in goes]
            return 0, "".join([*(f"Purg {name} [1]\n" for name in goes), *comes]), ""
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
        (verb,) = {"purge", "remove"} & set(argv)
        names = set(argv[argv.index(verb) + 1 :]) & self.installed
        names |= {n for n, needs in self.needs.items() if needs & names}
        return names | {n for n, needs in self.needs_one.items() if needs <= names}

    def unmount(self) -> None:
        """As the script of docker.io does it: by the beginning of a path."""
        mounts = (self.root / "proc/self/mountinfo").read_text().splitlines(keepends=True)
        kept = [line for line in mounts if not line.split()[4].startswith("/var/lib/docker")]
        self.put("proc/self/mountinfo", "".join(kept))

    def _apt(self, argv: list[str]) -> None:
        gone = self._goes(argv)
        assert not gone - {*BROUGHT, "nfs-kernel-server"}, "a package of others goes with ours"
        assert "docker.io" not in gone or "docker.service" not in self.active, "it runs"
        if "remove" in argv:
            # The configuration stays, and with Debian's docker.io a script for the purge.
            self.put(UNMOUNTS)
            return
        if "docker.io" in gone and (self.root / UNMOUNTS).exists():
            self.unmount()
        self.installed -= gone

    def _change(self, argv: list[str], data: str | None) -> tuple[int, str, str]:
        if argv[0] == "rm":
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        if argv[0] == "apt-get":
            self._apt(argv)
        elif argv[0] == "apt-mark":
            self.held -= set(argv[2:])
        elif argv[0] == "systemctl":
            self.active -= set(argv[1:])
        elif argv[0] == "ip":
            os.rmdir(self.root / "sys/class/net/docker0")  # noqa: PTH106
        elif argv[0] == "umount":
            assert argv[-1] == "/run/docker/netns/default"
            mounts = (self.root / "proc/self/mountinfo").read_text().splitlines(keepends=True)
            kept = [line for line in mounts if " /run/docker/" not in line]
            self.put("proc/self/mountinfo", "".join(kept))
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
