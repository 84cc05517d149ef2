"""A lab node behaves like a bare server."""

import pytest


def test_systemd_is_running(host):
    assert host.run("systemctl is-system-running").stdout.strip() == "running"


def test_the_user_is_ordinary_and_becomes_root_by_sudo(host):
    assert host.user("appliance").uid >= 1000
    assert host.run("sudo -u appliance sudo -n id -un").stdout.strip() == "root"


def test_control_groups_are_the_nodes_own(host):
    lines = host.file("/proc/1/cgroup").content_string.splitlines()
    systemd = [line for line in lines if ":name=systemd:" in line or line.startswith("0::")]
    assert systemd
    assert all(line.endswith(":/init.scope") for line in systemd)


def test_there_is_a_default_route_that_leads_nowhere(host):
    assert ".254 dev eth0" in host.run("ip route show default").stdout


def test_names_are_refused_at_once(host):
    answer = host.run("timeout 3 getent hosts nowhere.example")
    assert answer.rc == 2


def test_mounts_are_shared_as_kubelet_needs_them(host):
    assert host.run("findmnt --noheadings --output PROPAGATION /").stdout.strip() == "shared"


@pytest.mark.parametrize("path", ["/var/lib/docker", "/var/lib/kubelet", "/var/lib/etcd"])
def test_data_is_on_a_volume_of_its_own(host, path):
    assert host.mount_point(path).exists
    assert host.mount_point(path).filesystem != "overlay"


def test_a_sized_volume_has_its_size(host):
    if host.backend.get_hostname().startswith("molecule-lab-2-"):
        assert host.mount_point("/var/lib/docker").filesystem == "tmpfs"


def test_facts_say_standin(host):
    facts = host.file("/etc/appliance-lab/facts/dmi.json").content_string
    assert f"STANDIN-{host.backend.get_hostname()}" in facts


def test_nothing_of_the_product_is_there(host):
    for program in ("docker", "kubelet", "kubeadm", "containerd"):
        assert not host.exists(program)
