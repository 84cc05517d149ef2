"""A folder that is exported over NFS 4, and comes back when somebody takes it away."""

import pytest


def test_the_folder_belongs_to_the_databases(host):
    folder = host.file("/srv/runai")
    assert folder.uid == 1001
    assert folder.mode == 0o777


def test_the_server_runs_and_starts_at_boot(host):
    assert host.service("nfs-ganesha").is_running
    assert host.service("nfs-ganesha").is_enabled
    assert (
        host.socket("tcp://0.0.0.0:2049").is_listening or host.socket("tcp://:::2049").is_listening
    )


def test_the_lan_may_mount_it_and_root_is_root_there(host):
    address = host.check_output("hostname -I").split()[0]
    assert mount(host, address).rc == 0
    try:
        host.run_expect([0], "touch /mnt/by-root")
        assert host.file("/srv/runai/by-root").uid == 0
    finally:
        host.run_expect([0], "rm -f /mnt/by-root; umount /mnt")


def test_a_stranger_may_not(host):
    # 127.0.0.1 is none of the networks that may.
    assert mount(host, "127.0.0.1").rc == 32


def mount(host, address):
    """Mount the folder as a member of the cluster would."""
    return host.run(f"mount -t nfs -o vers=4 {address}:/srv/runai /mnt")


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (["echo >/etc/ganesha/ganesha.conf", "systemctl disable --now nfs-ganesha"], 2),
        (["chmod 0755 /srv/runai"], 1),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
