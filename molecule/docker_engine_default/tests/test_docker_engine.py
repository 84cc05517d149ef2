"""Docker with the systemd cgroup driver."""

import json

import pytest

CONFIGURATION = "/etc/docker/daemon.json"
DRIVER = "docker info --format '{{.CgroupDriver}}'"


def test_docker_runs_with_the_systemd_cgroup_driver_and_overlay2(host):
    asked = "docker info --format '{{.CgroupDriver}} {{.Driver}} {{.LoggingDriver}}'"
    assert host.run(asked).stdout.split() == ["systemd", "overlay2", "json-file"]


def test_what_others_configured_is_still_there(host):
    configuration = json.loads(host.file(CONFIGURATION).content_string)
    assert configuration["debug"] is True
    assert configuration["exec-opts"] == ["native.cgroupdriver=systemd"]


def test_runtime_and_its_parts_are_on_hold(host):
    assert {"docker.io", "containerd", "runc"} <= set(host.run("apt-mark showhold").stdout.split())


def test_no_policy_against_services_is_left_behind(host):
    assert not host.file("/usr/sbin/policy-rc.d").exists


def test_the_installation_left_its_evidence(host):
    result = json.loads(host.file("/var/lib/appliance/jobs/packages.json").content_string)
    assert result["rc"] == 0
    assert host.file("/var/lib/appliance/jobs").mode == 0o700


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (
            [
                f"sed -i s/systemd/cgroupfs/ {CONFIGURATION} && systemctl restart docker",
                "apt-mark unhold containerd",
            ],
            3,
        ),
        (
            [
                f"rm {CONFIGURATION}",
                "systemctl disable docker",
                "systemctl stop docker.socket docker",
            ],
            2,
        ),
    ],
)
def test_drift_is_reported_and_repaired(drift, host, commands, tasks):
    drift(commands, tasks)
    assert host.run(DRIVER).stdout.strip() == "systemd"


def test_a_configuration_written_by_a_run_that_died_is_taken_up(host, converge_again):
    """The right file, and a daemon that was started before it came."""
    host.run_expect([0], f"cp {CONFIGURATION} /tmp/right")
    host.run_expect([0], f"sed -i s/systemd/cgroupfs/ {CONFIGURATION}; systemctl restart docker")
    host.run_expect([0], f"cp /tmp/right {CONFIGURATION}")
    assert host.run(DRIVER).stdout.strip() == "cgroupfs"
    assert converge_again() == 1
    assert host.run(DRIVER).stdout.strip() == "systemd"


@pytest.mark.parametrize("state", ["--unpack", "--remove"])
def test_a_half_installed_package_is_completed(host, converge_again, state):
    """dpkg stopped between unpacking and configuring, or after removing."""
    if state == "--unpack":
        host.run_expect(
            [0], "cd /tmp && apt-get -q -c /var/lib/appliance/apt/apt.conf download runc"
        )
        host.run_expect([0], "dpkg --unpack /tmp/runc_*.deb")
        assert host.run("dpkg-query -W -f '${db:Status-Abbrev}' runc").stdout[1] == "U"
    else:
        host.run_expect(
            [0], "systemctl stop docker.socket docker; dpkg --force-all --remove docker.io"
        )
    assert converge_again() > 0
    assert host.run("dpkg-query -W -f '${db:Status-Abbrev}' runc docker.io").stdout == "hi hi "
    assert converge_again() == 0


def test_a_foreign_lock_is_waited_for_and_its_holder_named(host):
    hold = (
        "import fcntl, time; f = open('/var/lib/dpkg/lock-frontend', 'w'); "
        "fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(20)"
    )
    host.run_expect([0], f'systemd-run --unit=other-apt python3 -c "{hold}"')
    host.run_expect([0], "sleep 1; systemctl is-active other-apt")
    arguments = "packages=nginx-light=0 lock_wait_seconds=1"
    answer = host.ansible("packages_from_bundle", arguments, check=False, become=True)
    host.run("systemctl stop other-apt")
    assert "has held dpkg's lock for more than" in answer["msg"]
    assert "python3 -c import fcntl" in answer["msg"]
