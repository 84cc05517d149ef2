"""Other choices: no automatic updates, other packages on hold, other settings."""

import pytest


@pytest.mark.parametrize("timer", ["apt-daily.timer", "apt-daily-upgrade.timer"])
def test_automatic_updates_are_off(host, timer):
    assert not host.service(timer).is_running
    assert not host.service(timer).is_enabled


def test_other_packages_are_on_hold(host):
    held = host.run("apt-mark showhold").stdout.split()
    assert "openssh-server" in held


def test_settings_are_those_asked_for(host):
    text = host.file("/etc/sysctl.d/90-appliance.conf").content_string
    assert "net.ipv4.conf.all.rp_filter = 0" in text
    assert "bridge" not in text


def test_a_refusal_left_nothing(host):
    assert "never_loaded" not in host.file("/etc/modules-load.d/appliance.conf").content_string
    assert "sysrq" not in host.file("/etc/sysctl.d/90-appliance.conf").content_string
    assert "localhost.site.test" not in host.file("/etc/hosts").content_string
