"""A mount of the shared storage that was proved, by the stand-in of the kernel's client."""

import json

import pytest

RECORD = "/var/lib/appliance/storage-proof.json"


def test_the_proof_says_what_was_found(host):
    proof = json.loads(host.file(RECORD).content_string)
    assert proof["path"] == "/srv/runai"
    assert proof["user"] == 1001
    assert proof["root_squashed"] is False
    assert 0 < proof["fsync_ms"] <= proof["fsync_worst_ms"]


def test_nothing_stays_mounted(host):
    assert "nfs" not in host.check_output("cut -d' ' -f3 /proc/mounts")


def test_the_folders_are_there_and_are_the_databases(host):
    if not host.file("/etc/ganesha/ganesha.conf").exists:
        pytest.skip("the folders are on the server")
    for name in ("appliance-proof", "appliance-volume-01"):
        assert host.file(f"/srv/runai/{name}").uid == 1001


def test_the_mount_is_a_stand_in_and_says_so(host):
    assert host.file("/sbin/mount.nfs").linked_to.endswith("mount_nfs_standin.py")
    assert host.file("/sbin/mount.nfs.distrib").exists, "nfs-common is the real package"
    assert "STANDIN" in host.file("/etc/appliance-lab/facts/storage.json").content_string


@pytest.mark.parametrize(
    ("commands", "tasks"), [([f"rm {RECORD}", "apt-mark unhold nfs-common"], 2)]
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
