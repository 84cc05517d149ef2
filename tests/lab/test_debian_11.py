"""A lab of Debian 11 nodes: a whole site with Run:ai, its life, and each of its files parsed.

Debian 11 has nginx, docker-registry and nfs-utils in the versions of Ubuntu 20.04, and is nearer to
it in the others. ``APPLIANCE_TEST_D11_SITE=DIR`` uses the lab of that site, which ``lab up --os
debian-11 --with runai`` made from ``APPLIANCE_TEST_D11_BUNDLE=DIR``, and leaves it up.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import succeed
from tests.contract import focal
from tests.lab.conftest import LabSite
from tests.this_run import alone, built_bundle, lab_down, lab_name, story_name

pytestmark = [pytest.mark.lab, pytest.mark.slow]

OS = "debian-11"
# What brings a program that this lab's nodes do not run: a balancer needs three control planes.
BALANCER = ("haproxy", "keepalived")
FROM_THE_BUNDLE = (
    "-o Dir::Etc::sourcelist=/etc/appliance/packages.list -o Dir::Etc::sourceparts=-"
    " -o Dpkg::Use-Pty=0 -q"
)
# Each file on the nodes, with the program of that version that reads it and says what is wrong.
PARSED = {
    "/etc/apt/apt.conf.d/52appliance-unattended-upgrades": "apt-config dump",
    "/etc/apt/apt.conf.d/90appliance": "apt-config dump",
    "/etc/appliance/pod-guard.rules": "iptables-restore --test --noflush {path}",
    "/etc/appliance/registry/nginx.conf": "nginx -t -c {path}",
    "/etc/chrony/chrony.conf": "chronyd -p -f {path}",
    "/etc/default/chrony": "sh -n {path}",
    "/etc/default/dnsmasq": "sh -n {path}",
    "/etc/dnsmasq.d/appliance.conf": "dnsmasq --test --conf-file={path}",
    "/etc/docker/daemon.json": "docker info",
    "/etc/docker/registry/config.yml": "docker-registry garbage-collect --dry-run {path}",
    "/etc/modprobe.d/appliance-nouveau.conf": "modprobe --showconfig",
    "/etc/nginx/conf.d/appliance.conf": "nginx -t",
    "/etc/ssh/sshd_config": "sshd -t",
}
UNITS = frozenset({
    f"{name}.service"
    for name in ("docker", "docker-registry", "docker-registry-tls", "kubelet", "pod-guard",
                 "nginx", "chrony")
})  # fmt: skip
# What systemd says of a statement that it does not know, or cannot read.
COMPLAINTS = ("Unknown ", "Failed to parse", "ignoring", "Invalid ", "not executable")


@pytest.fixture(scope="module")
def d11(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """The lab, installed to its end by the one command."""
    if given := os.environ.get("APPLIANCE_TEST_D11_SITE"):
        site = Path(given)
        (control_plane,) = site.glob("host_vars/*-cp1.yml")
        bundle = Path(os.environ["APPLIANCE_TEST_D11_BUNDLE"])
        yield LabSite(control_plane.stem.removesuffix("-cp1"), site, bundle)
        return
    lab_down(story_name())
    site = tmp_path_factory.mktemp("d11") / lab_name("d11")
    bundle = built_bundle(standins=True, os_name=OS)
    words = ["lab", "up", "--name", site.name, "--site", str(site), "--bundle", str(bundle)]
    try:
        with alone("machine"):
            succeed(*words, "--os", OS, "--with", "runai", "--yes", timeout=3600)
        yield LabSite(site.name, site, bundle)
    finally:
        if not os.environ.get("APPLIANCE_TEST_KEEP"):
            lab_down(site.name)


def _nothing_to_do(lab: LabSite) -> None:
    lab.settled()
    done = lab.install()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to do" in done.stdout


def _run(lab: LabSite, short: str, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["podman", "exec", lab.node(short), "sh", "-c", command],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_nodes_run_debian_11_with_python_3_9(d11: LabSite) -> None:
    status = d11.status()
    assert [node["status"] for node in status["nodes"]] == ["Ready"] * 3
    for short in ("cp1", "w1", "w2"):
        release = d11.shell(short, ". /etc/os-release; echo $ID-$VERSION_ID")
        assert release.strip() == OS
        assert d11.shell(short, "python3 --version").startswith("Python 3.9.")
    listed = json.loads(succeed("lab", "status", "--name", d11.name, "-o", "json").stdout)
    assert listed["stand_ins"][0]["played_by"] == "Debian 11 in place of Ubuntu 20.04"


def test_a_second_run_has_nothing_to_do(d11: LabSite) -> None:
    _nothing_to_do(d11)


def test_each_file_is_parsed_by_the_program_of_debian_11(d11: LabSite) -> None:
    read: set[str] = set()
    wrong = []
    for short in ("cp1", "w1"):
        for path, command in PARSED.items():
            if _run(d11, short, f"test -e {path}").returncode:
                continue
            done = _run(d11, short, command.format(path=path))
            read.add(path)
            if done.returncode:
                wrong.append(f"{short}: {path}: {done.stdout[-500:]}{done.stderr[-500:]}")
    assert wrong == []
    assert read == set(PARSED)


def test_systemd_247_knows_every_statement_of_the_units(d11: LabSite) -> None:
    found: set[str] = set()
    for short in ("cp1", "w1"):
        for unit in sorted(UNITS):
            if _run(d11, short, f"systemctl cat {unit}").returncode:
                continue
            found.add(unit)
            done = _run(d11, short, f"systemd-analyze verify --man=no {unit}")
            wrong = [
                line
                for line in (done.stdout + done.stderr).splitlines()
                if any(word in line for word in COMPLAINTS)
            ]
            assert wrong == [], f"{short}: {unit}"
    assert found == UNITS


def test_every_branch_of_a_balancers_files_is_parsed(d11: LabSite) -> None:
    """haproxy 2.2 and keepalived 2.1 on a worker, from the bundle, never started."""
    for name in BALANCER:
        d11.shell("w2", f"systemctl mask {name}.service")
    d11.shell("w2", f"apt-get {FROM_THE_BUNDLE} update")
    d11.shell("w2", f"DEBIAN_FRONTEND=noninteractive apt-get {FROM_THE_BUNDLE} --yes "
                    f"--no-install-recommends install {' '.join(BALANCER)}")  # fmt: skip
    commands = {
        "/etc/haproxy/haproxy.cfg": "haproxy -c -f {path}",
        "/etc/keepalived/keepalived.conf": "keepalived --config-test --use-file={path}",
        "/etc/chrony/chrony.conf": "chronyd -p -f {path}",
        "/etc/dnsmasq.d/appliance.conf": "dnsmasq --test --conf-file={path}",
    }
    parsed: set[str] = set()
    try:
        for path, text in _rendered():
            if path not in commands:
                continue
            short = "cp1" if path.startswith("/etc/dnsmasq") else "w2"
            there = f"/root/d11-{Path(path).name}"
            d11.shell(short, f"printf %s {shlex.quote(text)} > {there}")
            done = _run(d11, short, commands[path].format(path=there))
            assert done.returncode == 0, f"{path}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            parsed.add(path)
    finally:
        d11.shell("w2", f"apt-get -q --yes purge {' '.join(BALANCER)}", check=False)
        for name in BALANCER:
            d11.shell("w2", f"systemctl unmask {name}.service", check=False)
    assert parsed == set(commands)


def _rendered() -> Iterator[tuple[str, str]]:
    table = focal.table("files")
    for one in focal.written():
        for variables in table["variables"].get(one.role.name, ()):
            yield one.rendered(variables)


def test_a_worker_is_maintained_and_returns(d11: LabSite) -> None:
    node, site = d11.node("w2"), ["--site", str(d11.directory)]
    succeed("node", "maintain", node, *site, "--reason", "a test of it", "--yes")
    taken = next(one for one in d11.status()["nodes"] if one["name"] == node)
    assert taken["status"] != "Ready"
    succeed("node", "return", node, *site, "--yes")
    _nothing_to_do(d11)


def test_a_worker_is_removed_and_rejoins(d11: LabSite) -> None:
    node, site = d11.node("w2"), ["--site", str(d11.directory)]
    succeed("node", "remove", node, *site, "--reason", "a test of it", "--yes")
    assert _run(d11, "w2", "test -e /etc/kubernetes/kubelet.conf").returncode == 1
    succeed("node", "rejoin", node, *site, "--yes", timeout=1200)
    _nothing_to_do(d11)
