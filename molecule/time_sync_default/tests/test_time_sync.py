"""Clocks that agree, and chrony that never touches them."""

import time

import pytest


def is_source(host):
    return host.file("/etc/chrony/chrony.conf").contains("^local stratum 10 orphan")


def test_chrony_runs_and_may_not_set_the_clock(host):
    assert host.service("chrony").is_running
    assert host.service("chrony").is_enabled
    arguments = [process.args for process in host.process.filter(comm="chronyd")]
    assert arguments
    assert all(" -x" in one for one in arguments)


def test_a_follower_selects_its_source(host):
    if is_source(host):
        pytest.skip("a source follows nobody")
    until = time.monotonic() + 30
    while "^*" not in (seen := host.run("chronyc -n sources").stdout):
        assert time.monotonic() < until, seen
        time.sleep(1)


def test_a_source_of_last_resort_serves_its_own_clock(host):
    if not is_source(host):
        pytest.skip("a follower is no source")
    assert "Stratum         : 10" in host.run("chronyc tracking").stdout


def test_no_other_daemon_keeps_time(host):
    assert not host.run("systemctl is-active systemd-timesyncd ntp ntpsec").stdout.count("\nactive")


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (
            [
                "echo 'server 192.0.2.1' >> /etc/chrony/chrony.conf",
                "rm /etc/default/chrony",
                "systemctl disable --now chrony",
                "apt-mark unhold chrony",
            ],
            3,
        ),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
