"""One address, on one node, and on the other when haproxy is gone there."""

import re
import time

import pytest
import testinfra

HAPROXY = "/etc/haproxy/haproxy.cfg"
POD = "a-pods-haproxy"
KEEPALIVED = "/etc/keepalived/keepalived.conf"


def has_address(host):
    return ".200/24" in host.check_output("ip -4 -br address show eth0")


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


def test_both_services_run_and_return_after_a_boot(host):
    for name in ("haproxy", "keepalived"):
        assert host.service(name).is_running
        assert host.service(name).is_enabled


def test_the_port_answers_on_every_address(host):
    assert host.socket("tcp://0.0.0.0:8443").is_listening


def test_the_check_of_haproxy_is_the_program_that_was_meant(host):
    journal = host.check_output("journalctl -u keepalived --no-pager")
    assert "killall5" not in journal
    assert "SECURITY VIOLATION" not in journal
    (script,) = re.findall(r'script "(\S+)', host.file(KEEPALIVED).content_string)
    assert host.file(script).exists


@pytest.fixture
def another_haproxy(pair):
    """A process of that name on each node, as a pod's is: it is none of the balancer's."""
    for node in pair:
        node.run_expect([0], "mkdir -p /opt/pod && cp /bin/sleep /opt/pod/haproxy")
        node.run_expect([0], f"systemd-run --quiet --unit={POD} --collect /opt/pod/haproxy 600")
    yield
    for node in pair:
        node.run_expect([0], f"systemctl stop {POD}")


@pytest.mark.usefixtures("another_haproxy")
def test_one_node_has_the_address_and_the_other_takes_it_and_keeps_it(pair):
    first, second = pair
    first.run_expect([0], "systemctl stop haproxy")
    first.run_expect([0], "pgrep -x haproxy")
    wait(lambda: has_address(second) and not has_address(first))
    first.run_expect([0], "systemctl start haproxy")
    time.sleep(5)
    assert has_address(second)


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"sed -i s/4h/5h/ {HAPROXY}", "systemctl restart haproxy"], 2),
        (["systemctl stop haproxy"], 1),
        (["systemctl disable keepalived"], 1),
        ([f"sed -i s/nopreempt// {KEEPALIVED}", "systemctl restart keepalived"], 2),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
