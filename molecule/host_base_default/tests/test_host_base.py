"""The base settings of a host."""

import pytest


@pytest.mark.parametrize(
    "key",
    [
        "net.bridge.bridge-nf-call-iptables",
        "net.bridge.bridge-nf-call-ip6tables",
        "net.ipv4.ip_forward",
    ],
)
def test_sysctls_hold_now_and_at_the_next_boot(host, key):
    assert host.sysctl(key) == 1
    assert host.file("/etc/sysctl.d/90-appliance.conf").contains(f"^{key} = 1$")


def test_modules_are_loaded_at_the_next_boot(host):
    assert host.file("/etc/modules-load.d/appliance.conf").contains("^br_netfilter$")


def test_names_of_the_site_resolve_and_those_of_the_host_stay(host):
    assert "node1.site.test" in host.run("getent hosts registry.site.test").stdout
    assert host.run("getent hosts printer").stdout.startswith("192.0.2.50")


def test_unattended_upgrades_leave_kernel_and_runtime_alone(host):
    found = host.run("apt-config dump Unattended-Upgrade::Package-Blacklist").stdout
    assert '"linux-"' in found
    assert '"docker"' in found


def test_apt_daily_runs_where_the_site_lets_it(host):
    assert host.service("apt-daily.timer").is_running


def test_a_byte_that_is_no_utf_8_stays_where_it_was(host, converge_again):
    edit = r"sed '/site\.test/d' /etc/hosts > /tmp/hosts; cat /tmp/hosts > /etc/hosts"
    host.run_expect([0], edit)
    assert converge_again() == 1
    assert host.run(r"LC_ALL=C grep -c -P '^# B\xfcro$' /etc/hosts").stdout == "1\n"
    assert host.run("grep -c 'BEGIN appliance' /etc/hosts").stdout == "1\n"


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (
            [
                "sysctl -w net.ipv4.ip_forward=0",
                "rm /etc/sysctl.d/90-appliance.conf /etc/modules-load.d/appliance.conf",
                "grep -v site.test /etc/hosts > /tmp/hosts; cat /tmp/hosts > /etc/hosts",
                "truncate -s 0 /etc/apt/apt.conf.d/52appliance-unattended-upgrades",
            ],
            4,
        ),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
