"""Removing an unused Docker: what goes, what stays, and what proves that nothing uses it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.modules.docker_machine import ON_CONTAINERD, ON_DOCKER
from tests.unit.modules.loading import load

if TYPE_CHECKING:
    from types import ModuleType

SOCKET = "unix:///run/containerd/containerd.sock"
DATA = ("var/lib/docker/overlay2/0f/diff/x", "var/lib/docker/image/overlay2/repositories.json")
REGISTRY = "r:5000"
IMAGES = "var/lib/docker/image/overlay2"
SHIM = "var/lib/dockershim/sandbox/x"
KEPT = (
    "etc/docker/certs.d/r:5000/ca.crt",
    "var/lib/containerd/io.containerd.content.v1.content/x",
    "var/lib/kubelet/kubeadm-flags.env",
)


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load("docker_removed", role="kubernetes_runtime")


class Machine:
    """Plays systemctl, dpkg and apt-mark on a folder; rm is the real one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.active: set[str] = set()
        self.enabled: set[str] = set()
        self.installed = ["docker.io"]
        self.changed: list[str] = []
        for name in (*DATA, SHIM, *KEPT, "proc/self/mountinfo"):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x" if name not in KEPT else ON_CONTAINERD)
        for name in ("containers", "volumes"):
            (root / "var/lib/docker" / name).mkdir()
        (root / "var/lib/docker/volumes/metadata.db").write_text("x")
        (root / "proc/self/mountinfo").write_text("36 35 98:0 / / rw shared:1 - ext4 none rw\n")
        self.containerd = ["sha256:a"]
        self.unit = "[Service]\n# --data-root /data\nExecStart=/usr/sbin/dockerd -H fd://\n"
        self.images({"r:5000/etcd:3": "sha256:a", "r:5000/old:1": "sha256:b",
                     "r:5000/old@sha256:f": "sha256:b"})  # fmt: skip

    def images(self, references: dict[str, str]) -> None:
        """Docker's store has these images: names -> identities."""
        self.put(f"{IMAGES}/repositories.json", json.dumps({"Repositories": {"x": references}}))
        for path in self.root.glob(f"{IMAGES}/imagedb/content/sha256/*"):
            path.unlink()
        for identity in references.values():
            self.put(f"{IMAGES}/imagedb/content/{identity.replace(':', '/')}")

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[:2] == ["systemctl", "cat"]:
            return 0, self.unit, ""
        if argv[0] == "crictl":
            assert argv[1:5] == ["--runtime-endpoint", SOCKET, "--image-endpoint", SOCKET]
            return 0, json.dumps({"images": [{"id": one} for one in self.containerd]}), ""
        if argv[0] == "systemctl":
            found = self.active if argv[1] == "is-active" else self.enabled
            no = "inactive" if argv[1] == "is-active" else "disabled"
            yes = "active" if argv[1] == "is-active" else "enabled"
            return 0, yes if argv[2] in found else no, ""
        if argv[0] == "dpkg-query":
            return 1, "".join(f"{name} installed\n" for name in self.installed), "none such"
        self.changed.append(" ".join(argv))
        if argv[0] == "rm":
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        if argv[0] == "dpkg":
            self.installed = []
        return 0, "", ""

    def put(self, name: str, text: str = "x") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def removed(
    module: ModuleType, machine: Machine, act: bool = True, given_up: tuple[str, ...] = ()
) -> list[str]:
    leftovers: Any = module.Leftovers(machine.root, machine)
    want = {"socket": SOCKET, "registry": REGISTRY, "given_up": given_up}
    module.remove(leftovers, want, act)
    found: list[str] = leftovers.removed
    return found


def test_packages_and_data_go_and_everything_else_stays(
    module: ModuleType, machine: Machine
) -> None:
    found = removed(module, machine, act=False)
    assert machine.changed == []
    assert removed(module, machine) == found
    assert found[0] == "package docker.io"
    assert machine.changed[:2] == ["apt-mark unhold docker.io", "dpkg --remove docker.io"]
    assert not any((machine.root / name).exists() for name in (*DATA, SHIM))
    assert list((machine.root / "var/lib/docker").iterdir()) == []
    assert all((machine.root / name).exists() for name in KEPT)
    machine.changed.clear()
    assert removed(module, machine) == []
    assert machine.changed == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("var/lib/kubelet/kubeadm-flags.env", ON_DOCKER, "does not run on containerd"),
        ("run/containerd/io.containerd.runtime.v2.task/moby/01/x", "x", "containers of Docker run"),
        ("var/lib/docker/containers/01/config.v2.json", "x", "1 containers are in"),
        ("var/lib/docker/volumes/customers/_data/x", "x", "volumes are in .*customers"),
        ("etc/docker/daemon.json", '{"data-root": "/data"}', "remove it by hand"),
        ("etc/docker/daemon.json", '{"graph": "/data"}', "remove it by hand"),
        ("etc/docker/daemon.json", '{"data-root', "daemon.json cannot be read"),
        ("etc/default/docker", 'DOCKER_OPTS="--data-root=/data"', "/etc/default/docker"),
        ("etc/default/docker", 'DOCKER_OPTS="-g /data"', "/etc/default/docker"),
        ("var/lib/docker/backup.tar", "x", "/var/lib/docker/backup.tar is not of Docker"),
        ("var/lib/dockershim/notes/x", "x", "/var/lib/dockershim/notes is not of Docker"),
        (f"{IMAGES}/repositories.json", "{", "cannot be compared"),
        (f"{IMAGES}/repositories.json", "[]", "cannot be compared"),
        (f"{IMAGES}/imagedb/content/sha256/c", "{}", "1 images are in Docker only .untagged"),
    ],
)
def test_what_others_may_need_stops_it_before_any_change(
    module: ModuleType, machine: Machine, name: str, text: str, said: str
) -> None:
    machine.put(name, text)
    with pytest.raises(module.RemoveError, match=f"{said}.*Nothing was removed"):
        removed(module, machine)
    assert machine.changed == []


@pytest.mark.parametrize("where", ["active", "enabled"])
def test_a_docker_that_runs_or_starts_at_boot_stops_it(
    module: ModuleType, machine: Machine, where: str
) -> None:
    getattr(machine, where).add("docker.socket")
    with pytest.raises(module.RemoveError, match=r"disable --now docker\.socket"):
        removed(module, machine)
    assert machine.changed == []


def test_what_is_mounted_below_or_linked_stops_the_removal_of_data(
    module: ModuleType, machine: Machine
) -> None:
    shim = machine.root / "var/lib/dockershim"
    elsewhere = machine.root / "srv/data"
    elsewhere.parent.mkdir()
    shim.rename(elsewhere)
    shim.symlink_to(elsewhere)
    with pytest.raises(module.RemoveError, match="is a link"):
        removed(module, machine)
    shim.unlink()
    point = (machine.root / "var/lib/docker/overlay2/0f/merged").resolve()
    mounts = machine.root / "proc/self/mountinfo"
    mounts.write_text(f"36 35 98:0 / {point} rw shared:1 - overlay none rw\n")
    with pytest.raises(OSError, match="is mounted below"):
        removed(module, machine)
    assert all((machine.root / name).exists() for name in DATA)
    assert (elsewhere / "sandbox/x").exists()


@pytest.mark.parametrize(
    "name", ["swarm/raft/wal", "plugins/0a1b/config.json", "trust/private/a.key"]
)
def test_the_state_of_a_swarm_or_of_plugins_stops_it_before_any_change(
    module: ModuleType, machine: Machine, name: str
) -> None:
    machine.put(f"var/lib/docker/{name}")
    with pytest.raises(module.RemoveError, match=r"swarm or plugins.*Nothing was removed"):
        removed(module, machine)
    assert machine.changed == []


def test_the_empty_folders_of_a_swarm_and_of_plugins_go(
    module: ModuleType, machine: Machine
) -> None:
    for name in ("swarm", "plugins/tmp", "plugins/storage"):
        (machine.root / "var/lib/docker" / name).mkdir(parents=True)
    (machine.root / "var/lib/docker/plugins/storage/ingest").mkdir()
    machine.put("var/lib/docker/plugins/storage/blobs/tmp/.x", "")
    removed(module, machine)
    assert list((machine.root / "var/lib/docker").iterdir()) == []


def test_a_link_or_a_mount_below_stops_it_before_packages_go(
    module: ModuleType, machine: Machine
) -> None:
    mounts = machine.root / "proc/self/mountinfo"
    point = (machine.root / "var/lib/docker/overlay2/0f/merged").resolve()
    mounts.write_text(f"36 35 98:0 / {point} rw shared:1 - overlay none rw\n")
    with pytest.raises(OSError, match="is mounted below"):
        removed(module, machine)
    assert machine.changed == []
    assert machine.installed == ["docker.io"]
    mounts.write_text("36 35 98:0 / / rw shared:1 - ext4 none rw\n")
    shim = machine.root / "var/lib/dockershim"
    shim.rename(machine.root / "srv")
    shim.symlink_to(machine.root / "srv")
    with pytest.raises(module.RemoveError, match="is a link"):
        removed(module, machine)
    assert machine.changed == []


def test_a_folder_of_data_that_the_unit_names_stops_it(
    module: ModuleType, machine: Machine
) -> None:
    machine.unit += "ExecStart=\nExecStart=/usr/sbin/dockerd --data-root /data\n"
    with pytest.raises(module.RemoveError, match=r"systemctl cat docker\.service.*by hand"):
        removed(module, machine)
    assert machine.changed == []


def test_the_usual_folder_may_be_named(module: ModuleType, machine: Machine) -> None:
    machine.put("etc/docker/daemon.json", '{"data-root": "/var/lib/docker/"}')
    assert removed(module, machine)[0] == "package docker.io"


BY_HAND = {"customer/agent:1": "sha256:c", "customer/agent:2": "sha256:c"}


def test_an_image_that_only_docker_has_is_named_and_stays(
    module: ModuleType, machine: Machine
) -> None:
    machine.images(BY_HAND)
    for given_up, named in (((), "agent:1, customer/agent:2"), (("customer/agent:1",), "agent:2")):
        with pytest.raises(module.RemoveError, match=rf"customer/{named}\)"):
            removed(module, machine, given_up=given_up)
    assert machine.changed == []
    assert removed(module, machine, given_up=tuple(BY_HAND))[0] == "package docker.io"


def test_an_image_that_containerd_has_goes_with_docker(
    module: ModuleType, machine: Machine
) -> None:
    machine.images(BY_HAND)
    machine.containerd = ["sha256:a", "sha256:c"]
    assert removed(module, machine)[0] == "package docker.io"
