"""One address, on one node, and on the other when the kubelet is gone there."""

import re
import time

import pytest
import testinfra

CONFIGURATION = "/etc/keepalived/runai-address.conf"
UNIT = "appliance-runai-address"


def has_address(host):
    return ".201/24" in host.check_output("ip -4 -br address show eth0")


@pytest.fixture
def pair(host):
    """Both nodes, the one with the address first."""
    backend = host.backend
    names = sorted(backend.get_hosts("all", ansible_inventory=backend.ansible_inventory))
    nodes = [
        testinfra.get_host(f"ansible://{name}", ansible_inventory=backend.ansible_inventory)
        for name in names
    ]
    assert [has_address(node) for node in nodes].count(True) == 1
    return sorted(nodes, key=has_address, reverse=True)


def wait(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.5)


def test_it_runs_beside_the_keepalived_of_the_api(host):
    assert host.service(UNIT).is_running
    assert host.service(UNIT).is_enabled
    assert not host.file("/etc/keepalived/keepalived.conf").exists


def test_the_check_of_the_kubelet_is_the_program_that_was_meant(host):
    journal = host.check_output(f"journalctl -u {UNIT} --no-pager")
    assert "SECURITY VIOLATION" not in journal
    (script,) = re.findall(r'script "(\S+)', host.file(CONFIGURATION).content_string)
    assert host.file(script).exists


def test_the_other_node_takes_the_address_and_keeps_it(pair):
    first, second = pair
    first.run_expect([0], "systemctl stop kubelet")
    wait(lambda: has_address(second) and not has_address(first))
    first.run_expect([0], "systemctl start kubelet")
    time.sleep(5)
    assert has_address(second)


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"systemctl stop {UNIT}"], 1),
        ([f"systemctl disable {UNIT}"], 1),
        ([f"sed -i s/nopreempt// {CONFIGURATION}", f"systemctl restart {UNIT}"], 2),
    ],
)
def test_drift_is_told_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
