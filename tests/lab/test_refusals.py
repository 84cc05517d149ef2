"""Broken input and unfit nodes are refused before any change, in words that help.

Each case puts a fault in force on bare nodes, runs the real install, and proves by facts and
journal that nothing was changed by it. The last one has many faults at once, and all are named.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from appliance.adapters.site.files import load_site
from tests.lab.conftest import LabSite
from tests.lab.support import faults
from tests.lab.support.stillness import Scene, assert_still, scene
from tests.this_run import OS

pytestmark = pytest.mark.lab

UNREACHABLE, REFUSED = 4, 3


@contextmanager
def _broken_bundle(lab: LabSite, folder: Path, spoil: Callable[[Path], None]) -> Iterator[LabSite]:
    """The lab with a copy of its bundle (hard links) that something is wrong with."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)

    copy = folder / "bundle"
    shutil.copytree(lab.bundle, copy, copy_function=link)
    spoil(copy)
    yield replace(lab, bundle=copy)


def _one_byte(bundle: Path) -> None:
    path = bundle / "bin" / "kubeadm"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)


def _no_blob(bundle: Path) -> None:
    blobs = (bundle / "images" / "blobs" / "sha256").iterdir()
    max(blobs, key=lambda path: path.stat().st_size).unlink()


def _manifest(bundle: Path, **values: str) -> None:
    path = bundle / "manifest.json"
    document = {**json.loads(path.read_text()), **values}
    path.unlink()
    path.write_text(json.dumps(document))


@contextmanager
def _at_work(lab: LabSite) -> Iterator[None]:
    """Another command holds the site."""
    state = lab.directory / ".appliance"
    with (state / "lock").open("a+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextmanager
def _two_faults(lab: LabSite) -> Iterator[None]:
    with faults.sshd_stopped(lab.node("cp1")), faults.changed_host_key(lab.node("w2")):
        yield


FOREIGN_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- cluster:
    server: https://198.51.100.7:6443
  name: other
"""


@contextmanager
def _many_faults(lab: LabSite) -> Iterator[None]:
    cp1, w1, w2 = (lab.node(short) for short in ("cp1", "w1", "w2"))
    proxy = "http_proxy=http://198.51.100.9:3128\n"
    with (
        faults.port_taken(cp1, 6443),
        faults.own_hostname(w1, "somebody"),
        faults.small_mtu(w1, 1400),
        faults.facts(w1, "firewall", ufw_active=True),
        faults.file_says(w1, "/etc/environment", proxy),
        faults.route_to(w2, "198.19.77.0/24"),
        faults.package_lock_held(w2),
        faults.file_says(w2, "/etc/docker/daemon.json", "{not JSON\n"),
        faults.file_says(w2, "/etc/kubernetes/kubelet.conf", FOREIGN_KUBECONFIG),
    ):
        yield


@dataclass(frozen=True)
class Case:
    """A fault, and what the refusal has to say of it.

    Attributes:
        fault: puts it in force; may yield another lab to install with.
        says: words of stderr; ``{w1}`` is that node's name, ``{w1_ip}`` its address.
        hint: words of the line that starts with ``hint:``.
    """

    fault: Callable[[LabSite, Path], AbstractContextManager[LabSite | None]]
    says: tuple[str, ...]
    hint: str
    code: int = REFUSED


def _node(
    short: str, fault: Callable[..., AbstractContextManager[None]], *words: object, **more: object
) -> Callable[[LabSite, Path], AbstractContextManager[None]]:
    def put(lab: LabSite, _: Path) -> AbstractContextManager[None]:
        return fault(lab.node(short), *words, **more)

    return put


def _spoilt(
    spoil: Callable[[Path], None],
) -> Callable[[LabSite, Path], AbstractContextManager[LabSite]]:
    return lambda lab, folder: _broken_bundle(lab, folder, spoil)


CASES: dict[str, Case] = {
    "one byte of the bundle": Case(
        _spoilt(_one_byte),
        ("{cp1}", "is damaged: bin/kubeadm: sha256", "expected"),
        "appliance bundle build --release",
    ),
    "an image blob missing": Case(
        _spoilt(_no_blob),
        ("{cp1}", "is damaged: images/blobs/sha256/", "missing"),
        "appliance bundle build --release",
    ),
    "a bundle of another release": Case(
        _spoilt(lambda path: _manifest(path, release="k8s-1.24.17-r1")),
        ("{cp1}: found the bundle", f"of k8s-1.24.17-r1 for {OS}, expected k8s-1.23.5-r1 for"),
        "appliance bundle build --release k8s-1.23.5-r1",
    ),
    "a bundle for another OS": Case(
        _spoilt(lambda path: _manifest(path, os="ubuntu-20.04")),
        ("{cp1}: found the bundle", "for ubuntu-20.04, expected k8s-1.23.5-r1 for " + OS),
        f"--os {OS}",
    ),
    "a folder that is no bundle": Case(
        _spoilt(lambda path: (path / "manifest.json").unlink()),
        ("is not a bundle: it has no manifest.json",),
        "appliance bundle build",
    ),
    "a full disk under Docker": Case(
        _node("w1", faults.small_filesystem, "/var/lib/docker", "8m", filled=True),
        ("{w1}: disk: found 0 bytes free on /var/lib/docker", "for images, unpacked"),
        "{w1_ssh} sudo du -xhd2 /var/lib/docker",
    ),
    "too small a disk for the bundle": Case(
        _node("cp1", faults.small_filesystem, "/var/lib/appliance", "300m"),
        ("{cp1}: disk: found 300 MiB free on /var/lib/appliance", "for the bundle"),
        "sudo du -xhd2 /var/lib/appliance",
    ),
    "a clock ten minutes ahead": Case(
        _node("w1", faults.clock_off, 600),
        ("{w1}: clock: found a clock", "s ahead of the control host's", "at most 60 s apart"),
        "{w1_ssh} date --utc",
    ),
    "a clock ten minutes behind": Case(
        _node("cp1", faults.clock_off, -600),
        ("{cp1}: clock: found a clock", "s behind the control host's"),
        "{cp1_ssh} date --utc",
    ),
    "no default route": Case(
        _node("w1", faults.no_default_route),
        ("{w1}: default_route: found no default route", "expected a default route"),
        "{w1_ssh} sudo ip route add default via",
    ),
    "no SSH": Case(
        _node("cp1", faults.sshd_stopped),
        ("{cp1} ({cp1_ip}): no SSH on port 22: Connection refused",),
        "ping {cp1_ip}",
        UNREACHABLE,
    ),
    "a pulled cable": Case(
        _node("cp1", faults.pulled_cable),
        ("{cp1} ({cp1_ip}): no SSH on port 22: No route to host",),
        "that it is powered on, cabled",
        UNREACHABLE,
    ),
    "another machine's host key": Case(
        _node("cp1", faults.changed_host_key),
        (
            "{cp1} ({cp1_ip}): wrong host key: found ssh-ed25519 SHA256:",
            "expected ssh-",
        ),
        "ssh-keygen -R {cp1_ip} -f",
        UNREACHABLE,
    ),
    "a host key nobody confirmed": Case(
        lambda lab, _: faults.unknown_host_key(lab.directory / "known_hosts", lab.node("cp1")),
        ("{cp1} ({cp1_ip}): its host key is not in",),
        "appliance install --accept-host-keys",
        UNREACHABLE,
    ),
    "our key is not there": Case(
        _node("cp1", faults.moved_away, "/home/appliance/.ssh/authorized_keys"),
        ("{cp1} ({cp1_ip}): authentication failed for user appliance with",),
        ".pub appliance@{cp1_ip}",
        UNREACHABLE,
    ),
    "two nodes at once, with two faults": Case(
        lambda lab, _: _two_faults(lab),
        ("{cp1} ({cp1_ip}): no SSH on port 22", "{w2} ({w2_ip}): wrong host key"),
        "ping {cp1_ip}",
        UNREACHABLE,
    ),
    "a user without sudo": Case(
        _node("w1", faults.moved_away, "/etc/sudoers.d/appliance"),
        ("{w1}: root: found the user appliance without root rights",),
        "{w1_ssh}",
    ),
    "a hostname twice": Case(
        lambda lab, _: faults.duplicate_hostname(lab.node("w2"), of=lab.node("w1")),
        ("{w2}: duplicate_hostname: found the hostname {w1}, which {w1} has too",),
        "sudo hostnamectl set-hostname {w2}",
    ),
    "a product_uuid twice": Case(
        lambda lab, _: faults.duplicate_product_uuid(lab.node("w2"), of=lab.node("w1")),
        ("{w2}: duplicate_product_uuid: found product_uuid", "which {w1} has too"),
        "product_uuid",
    ),
    "a serial twice": Case(
        lambda lab, _: faults.facts(lab.node("w2"), "dmi", serial=f"STANDIN-{lab.node('w1')}"),
        ("{w2}: duplicate_serial: found DMI serial STANDIN-{w1}, which {w1} has too",),
        "host_vars/",
    ),
    "an address in use": Case(
        lambda lab, _: faults.address_taken(lab.address("w2"), by=lab.node("w1")),
        ("{w2}: address_in_use: found {w2_ip}", "expected {w2_ip} on this node only"),
        "address",
    ),
    "an address that the node does not carry": Case(
        lambda lab, _: faults.facts(
            lab.node("w1"),
            "nics",
            [{"name": "eth0", "mtu": 1500, "addresses": ["198.51.100.9/24"]}],
        ),
        ("{w1}: address: found the addresses 198.51.100.9/24, expected {w1_ip}/24",),
        "correct address in host_vars/{w1}.yml",
    ),
    "somebody else at work": Case(
        lambda lab, _: _at_work(lab),
        ("another command is at work on this site",),
        "appliance history",
    ),
    "many things at once": Case(
        lambda lab, _: _many_faults(lab),
        (
            "{cp1}: ports: found port 6443/tcp used by python3, expected port 6443 free for kube-a",
            "{w1}: hostname: found the hostname somebody, expected {w1}",
            "{w1}: mtu: found MTU 1400 on eth0, expected at least 1500",
            "{w1}: firewall: found ufw active, expected ufw off",
            "{w1}: proxy: found the proxy http://198.51.100.9:3128 in the environment",
            "{w2}: ranges: found the route 198.19.77.0/24 on eth0, inside the pod range",
            "{w2}: package_lock: found the package manager locked by",
            "{w2}: docker_settings: found /etc/docker/daemon.json",
            "{w2}: other_cluster: found a member of another cluster (https://198.51.100.7:6443)",
        ),
        "sudo ss -lnp sport = :6443",
    ),
}


@pytest.fixture(scope="module")
def bare(lab: LabSite) -> Scene:
    """The lab before any fault: nodes on which an install would change everything."""
    done = lab.install("--dry-run")
    assert done.returncode == 0, done.stderr
    assert all(f"{step}: " in done.stdout for step in ("host", "artifacts", "workers"))
    found = scene(lab)
    assert found.node_facts.keys() == {lab.node(short) for short in ("cp1", "w1", "w2")}
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("bare")
def test_an_install_is_refused_before_any_change(lab: LabSite, name: str, tmp_path: Path) -> None:
    case = CASES[name]
    names = {short: lab.node(short) for short in ("cp1", "w1", "w2")}
    addresses = {short: lab.address(short) for short in names}
    names |= {f"{short}_ip": address for short, address in addresses.items()}
    key = load_site(lab.directory).settings.ssh.private_key
    names |= {f"{one}_ssh": f"ssh -i {key} appliance@{ip}" for one, ip in addresses.items()}
    with ExitStack() as stack:
        used = stack.enter_context(case.fault(lab, tmp_path)) or lab
        before = scene(lab)
        began = time.monotonic()
        done = used.install(timeout=120)
        took = time.monotonic() - began
        after = scene(lab)
    said = done.stdout + done.stderr
    print(f"{name}: {took:.1f} s\n{said}")  # noqa: T201 - for the log
    assert done.returncode == case.code, said
    for words in case.says:
        assert words.format(**names) in done.stderr, f"not said: {words}\n{said}"
    hints = [line for line in done.stderr.splitlines() if "hint:" in line]
    assert any(case.hint.format(**names) in line for line in hints), said
    assert "Traceback" not in said
    assert_still(before, after)


def test_the_nodes_are_as_bare_as_before(lab: LabSite, bare: Scene) -> None:
    assert_still(bare, scene(lab))
