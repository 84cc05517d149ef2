"""The kernel's NFS server and client, by the same roles, in a machine with a kernel of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.ssh.probing.archive import probe_archive
from tests.lab.support.emulated import Machine, machine
from tests.prerequisites import require

ROOT = Path(__file__).parents[2]
EXPORT = "/srv/runai"
FOLDERS = ["appliance-proof", "appliance-volume-01"]
# systemd reads this file after the role's. The unit starts mountd and the exports as well, without
# which version 3 cannot be mounted; rpc.nfsd by hand starts neither.
ONLY_3 = Path("/run/systemd/system/nfs-server.service.d/z.conf")
SERVES_3 = b"""[Service]
ExecStart=
ExecStart=/usr/sbin/rpc.nfsd --no-udp --no-nfs-version 4 --nfs-version 3 4
"""
pytestmark = [pytest.mark.lab, pytest.mark.slow]

Converge = Callable[..., tuple[int, int, str]]


@pytest.fixture(scope="module")
def vm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One machine that serves and mounts, over its own address."""
    require("mmdebstrap", "qemu-system-x86_64", "ssh-keygen")
    with machine(tmp_path_factory.mktemp("vm")) as found:
        yield found


@pytest.fixture(scope="module")
def converge(vm: Machine, tmp_path_factory: pytest.TempPathFactory) -> Converge:
    """Apply both roles; returns Ansible's exit status, how many tasks changed, and its words."""
    folder = tmp_path_factory.mktemp("play")
    versions = dict(
        line.split() for line in vm.shell("dpkg-query -W nfs-common nfs-kernel-server").splitlines()
    )
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    variables: dict[str, Any] = {
        "ansible_host": "127.0.0.1",
        "ansible_port": vm.port,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(vm.key),
        "ansible_ssh_common_args": options,
        "ansible_python_interpreter": "/usr/bin/python3",
        "nfs_server_path": EXPORT,
        "nfs_server_clients": ["10.0.2.0/24"],
        "nfs_server_kernel_packages": {"nfs-kernel-server": versions["nfs-kernel-server"]},
        "nfs_client_packages": {"nfs-common": versions["nfs-common"]},
        "nfs_client_server": "10.0.2.15",
        "nfs_client_path": EXPORT,
        "nfs_client_folders": FOLDERS,
        "nfs_client_root_squash_allowed": False,
    }
    inventory = folder / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"vm": variables}}}))
    play = {"hosts": "all", "gather_facts": False, "roles": ["nfs_server", "nfs_client"]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "playbooks" / "ansible.cfg"),
    }

    def apply(*more: str) -> tuple[int, int, str]:
        program = Path(sys.executable).with_name("ansible-playbook")
        done = subprocess.run(
            [program, "-i", inventory, *more, folder / "play.yml"],
            env=environment, capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
        words = done.stdout + done.stderr
        changed = re.search(r"changed=(\d+)", done.stdout)
        return done.returncode, int(changed.group(1)) if changed else -1, words

    return apply


def look(vm: Machine) -> dict[str, Any]:
    """The section ``storage`` of the machine's facts."""
    vm.shell("cat >/run/probe.pyz", feed=probe_archive())
    folders = ",".join(FOLDERS)
    text = vm.shell(f"python3 /run/probe.pyz --nfs 10.0.2.15:{EXPORT} --nfs-folders {folders}")
    found: dict[str, Any] = json.loads(text)["storage"]
    return found


def test_a_machine_without_a_server_says_so(vm: Machine) -> None:
    found = look(vm)
    assert found["client"] == "kernel"
    assert found["export"]["reachable"] is False
    assert found["export"]["error"] == "port 2049: connection refused"
    assert found["served"] is None


def test_the_kernel_serves_and_mounts_and_user_1001_writes(vm: Machine, converge: Converge) -> None:
    code, changed, words = converge()
    assert code == 0, words
    assert changed == 6, words
    versions = set(vm.shell("cat /proc/fs/nfsd/versions").split())
    assert {"+4"} <= versions <= {"-2", "-3", "+4", "-4.0", "+4.0", "+4.1", "+4.2"}, versions
    assert ":0801 " not in vm.shell("cat /proc/net/udp /proc/net/udp6"), "nothing serves over UDP"
    found = look(vm)
    assert found["served"] == "kernel"
    assert found["export"]["reachable"] is True
    assert found["local"]["folders"] == FOLDERS
    assert found["proof"]["folders"] == FOLDERS
    assert found["proof"]["free_bytes"] > 0
    assert found["proof"]["version"] == "4.2"
    assert found["proof"]["root_squashed"] is False
    assert found["proof"]["fsync_ms"] > 0
    assert " nfs4 " not in vm.shell("cat /proc/mounts"), "nothing stays mounted"


def test_a_second_run_changes_nothing(converge: Converge) -> None:
    assert converge()[:2] == (0, 0)
    assert converge("--check")[:2] == (0, 0)


@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2"])
def test_each_version_that_the_server_offers_is_mounted(
    vm: Machine, converge: Converge, version: str
) -> None:
    given = json.dumps({"nfs_client_options": [f"nfsvers={version}"]})
    code, changed, words = converge("--extra-vars", given)
    assert (code, changed) == (0, 1), words
    assert look(vm)["proof"]["version"] == version


def test_a_version_that_the_server_does_not_offer_is_refused_and_nothing_stays(
    vm: Machine, converge: Converge
) -> None:
    code, _, words = converge("--extra-vars", json.dumps({"nfs_client_options": ["nfsvers=3"]}))
    assert code != 0
    assert "cannot be mounted with nfsvers=3" in words
    assert " nfs " not in vm.shell("cat /proc/mounts")
    assert converge()[:2] == (0, 1)


def test_a_filer_with_version_3_alone_is_mounted_and_locks(vm: Machine, converge: Converge) -> None:
    try:
        vm.shell(f"mkdir -p {ONLY_3.parent}; cat >{ONLY_3}", feed=SERVES_3)
        vm.shell("systemctl daemon-reload; systemctl restart nfs-server")
        assert {"+3", "-4"} <= set(vm.shell("cat /proc/fs/nfsd/versions").split())
        given = {"nfs_client_options": ["nfsvers=3"], "nfs_client_server": "10.0.2.15"}
        words = ("--extra-vars", json.dumps(given), "--start-at-task", "*Install the NFS client")
        code, _, said = converge(*words)
        assert code == 0, said
        assert look(vm)["proof"]["version"] == "3"
    finally:
        vm.shell(f"rm -f {ONLY_3}; systemctl daemon-reload; systemctl restart nfs-server")
    assert converge()[0] == 0


def test_an_export_taken_back_by_hand_is_seen_and_returns(vm: Machine, converge: Converge) -> None:
    vm.shell("exportfs -ua")
    assert look(vm)["served"] is None
    code, changed, words = converge()
    assert (code, changed) == (0, 1), words
    assert look(vm)["served"] == "kernel"


def test_root_squashed_by_another_export_is_refused(vm: Machine, converge: Converge) -> None:
    squashed = f"{EXPORT} 10.0.2.15(rw,sync,no_subtree_check,root_squash)"
    vm.shell(f"echo '{squashed}' >/etc/exports.d/z.exports; exportfs -ra")
    try:
        code, _, words = converge()
        assert code != 0
        assert "another export of it squashes root" in words
    finally:
        vm.shell("rm /etc/exports.d/z.exports; exportfs -ra")


def test_a_folder_that_1001_may_not_write_is_refused_with_what_to_do(
    vm: Machine, converge: Converge
) -> None:
    vm.shell(f"chmod 0700 {EXPORT}; chown 0:0 {EXPORT}")
    assert look(vm)["local"]["owner"] == 0
    code, _, words = converge("--start-at-task", "*Install the NFS client")
    assert code != 0, words
    assert f"chown -R 1001:1001 {EXPORT}" in words
    assert converge()[:2] == (0, 1)
