"""A worker with the bundle's driver, as far as it can be had without a GPU: all of it STANDINs."""

import json

DRIVER = "535.183.06"
NEW, OLD = "5.4.0-216-generic", "5.4.0-215-generic"
LOADED = "/sys/module/nvidia/version"
BROKEN = "/var/lib/dkms-broken"
DAEMON = "/etc/docker/daemon.json"
# What was asked for, and what it depends on.
VERSIONS = {
    "cuda-drivers-535": f"{DRIVER}-1",
    "cuda-drivers-fabricmanager-535": f"{DRIVER}-1",
    "dkms": "2.8.1-5ubuntu2",
    "libnvidia-compute-535": f"{DRIVER}-1",
    f"linux-headers-{OLD}": "5.4.0-215.235",
    f"linux-headers-{NEW}": "5.4.0-216.236",
    "nvidia-container-toolkit": "1.17.8-1",
    "nvidia-container-toolkit-base": "1.17.8-1",
    "nvidia-dkms-535": f"{DRIVER}-1",
    "nvidia-driver-535": f"{DRIVER}-1",
    "nvidia-fabricmanager-535": f"{DRIVER}-1",
}


def built_for(host, kernel):
    return host.run(f"modinfo -k {kernel} --field version nvidia").stdout.strip()


def runtime(host):
    return host.run("docker info --format '{{.DefaultRuntime}}'").stdout.strip()


def test_exactly_the_packages_of_the_bundle_are_installed(host):
    asked = f"dpkg-query -W -f '${{Package}} ${{Version}}\\n' {' '.join(VERSIONS)}"
    found = dict(line.split() for line in host.run(asked).stdout.splitlines())
    assert found == VERSIONS


def test_driver_kernels_and_what_they_depend_on_are_on_hold(host):
    held = set(host.run("apt-mark showhold").stdout.split())
    assert set(VERSIONS) <= held


def test_nouveau_is_blocked(host):
    config = host.run("/sbin/modprobe --showconfig").stdout
    assert "blacklist nouveau" in config


def test_the_driver_is_built_for_each_kernel_and_loaded(host):
    assert [built_for(host, kernel) for kernel in (NEW, OLD)] == [DRIVER, DRIVER]
    assert host.file(LOADED).content_string.strip() == DRIVER


def test_the_fabric_manager_runs_now_and_at_every_boot(host):
    unit = host.service("nvidia-fabricmanager")
    assert unit.is_running
    assert unit.is_enabled


def test_containers_get_gpus_by_default_and_docker_keeps_its_configuration(host):
    assert runtime(host) == "nvidia"
    configuration = json.loads(host.file(DAEMON).content_string)
    assert configuration["runtimes"]["nvidia"]["path"] == "nvidia-container-runtime"
    assert configuration["exec-opts"] == ["native.cgroupdriver=systemd"]


def test_drift_is_reported_and_repaired(drift, host):
    drift(
        [
            f"rm /lib/modules/{OLD}/updates/dkms/nvidia.ko",
            "apt-mark unhold libnvidia-compute-535",
            "systemctl disable --now nvidia-fabricmanager",
            f'sed -i \'s/"default-runtime": "nvidia"/"default-runtime": "runc"/\' {DAEMON}',
            "systemctl restart docker",
        ],
        5,
    )
    assert built_for(host, OLD) == DRIVER
    assert runtime(host) == "nvidia"


def test_a_driver_that_is_loaded_is_never_replaced(host, refusal):
    host.run_expect([0], f"echo 525.60.13 > {LOADED}")
    said = refusal()
    host.run_expect([0], f"echo {DRIVER} > {LOADED}")
    assert f"NVIDIA's driver 525.60.13 is loaded and in use, and {DRIVER} is installed" in said
    assert "reboot this node" in said


def test_a_kernel_for_which_dkms_fails_is_named(host, refusal):
    module = f"/lib/modules/{OLD}/updates/dkms/nvidia.ko"
    host.run_expect([0], f"touch {BROKEN} && rm {module}")
    said = refusal()
    host.run_expect([0], f"rm {BROKEN} && echo {DRIVER} > {module}")
    assert f"dkms did not build NVIDIA's driver {DRIVER} for kernel {OLD}" in said
    assert "Bad return status for module build" in said
