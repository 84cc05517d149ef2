"""Nothing of a member is left, and everything else is."""

import pytest

EMPTY = ("/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/cni", "/etc/cni/net.d")


@pytest.mark.parametrize("folder", EMPTY)
def test_what_is_a_members_alone_is_empty(host, folder):
    assert host.file(folder).listdir() == []


def test_its_mounts_links_and_credentials_are_gone(host):
    assert "/var/lib/kubelet/" not in host.file("/proc/mounts").content_string
    assert not host.file("/var/lib/appliance/node-reset.json").exists
    assert not host.interface("cni0").exists
    assert not host.interface("flannel.1").exists
    assert not host.file("/root/.kube/config").exists
    assert not host.file("/data/people/alice/.kube/config").exists


def test_the_snapshots_of_etcd_are_gone_and_nothing_beside_them(host):
    assert host.file("/var/lib/appliance/etcd-snapshots").listdir() == ["their.db"]


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/appliance/tls/registry.key", "/etc/appliance/tls/artifacts.crt"),
        *("/etc/appliance/registry/nginx.conf", "/etc/appliance/registry/login/config.json"),
        "/etc/nginx/conf.d/appliance.conf",
    ],
)
def test_the_keys_and_logins_of_a_node_that_served_the_site_are_gone(host, path):
    assert not host.file(path).exists


@pytest.mark.parametrize("name", ["kubelet", "keepalived", "docker-registry-tls"])
def test_its_units_neither_run_nor_start_at_boot(host, name):
    assert not host.service(name).is_running
    assert not host.service(name).is_enabled


def test_what_is_none_of_its_stays(host):
    assert host.service("docker").is_running
    assert host.interface("docker0").exists
    assert host.service("nginx").is_running
    for path in ("/srv/kept", "/etc/appliance/tls/their.key", "/etc/nginx/conf.d/their.conf"):
        assert host.file(path).exists
    assert host.file("/var/lib/appliance/archive/kept").exists


@pytest.mark.parametrize(
    "commands",
    [
        ["ip link add cni0 type bridge"],
        ["systemctl enable kubelet"],
        ["echo left > /etc/appliance/tls/registry.key"],
        ["echo left > /etc/kubernetes/kubelet.conf"],
        ["echo left > /var/lib/appliance/etcd-snapshots/20260101T000000Z-api-server.db"],
        ["mkdir -p /var/lib/kubelet/pods/q && mount -t tmpfs tmpfs /var/lib/kubelet/pods/q"],
    ],
)
def test_what_comes_back_is_reported_and_removed(drift, commands):
    drift(commands, 1)
