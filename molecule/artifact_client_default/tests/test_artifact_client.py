"""A node that takes packages from the bundle."""

import pytest


def test_apt_reads_the_bundle_and_trusts_the_site(host):
    options = "-o Dir::Etc::sourcelist=/etc/appliance/packages.list -o Dir::Etc::sourceparts=-"
    host.run_expect([0], "mkdir -p /tmp/lists/partial")
    done = host.run(f"apt-get {options} -o Dir::State::lists=/tmp/lists update")
    assert done.rc == 0
    assert "https://artifacts.site.test:9443/apt" in done.stdout
    assert "Err" not in done.stdout


def test_the_sources_of_the_site_are_left_alone(host):
    others = host.run("ls /etc/apt/sources.list.d /etc/apt/sources.list").stdout.split()
    assert len(others) > 1


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (
            [
                "rm /etc/appliance/ca.crt /etc/appliance/packages.list",
                "truncate -s 0 /etc/apt/apt.conf.d/90appliance",
            ],
            1,
        ),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
