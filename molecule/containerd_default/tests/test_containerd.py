"""containerd as the runtime of a kubelet, on a node without one."""

import pytest

CONFIGURATION = "/etc/containerd/config.toml"
NVIDIA = "/usr/bin/nvidia-container-runtime"


def dumped(host):
    return host.run_expect([0], "containerd config dump").stdout


def test_containerd_runs_with_the_settings_of_the_kubelet(host):
    text = dumped(host)
    assert 'bin_dir = "/opt/cni/bin"' in text
    assert 'sandbox_image = "registry.site.test:5000/pause:3.6"' in text
    assert 'config_path = "/etc/containerd/certs.d"' in text
    assert "SystemdCgroup = true" in text
    assert host.service("containerd").is_running
    assert host.service("containerd").is_enabled
    assert host.file(CONFIGURATION).mode == 0o600


def test_the_interface_of_the_kubelet_is_served(host):
    plugins = host.run_expect([0], "ctr plugins ls").stdout
    states = [line.split()[-1] for line in plugins.splitlines() if " cri " in line]
    assert states == ["ok"]
    assert "unix:///run/containerd/containerd.sock" in host.file("/etc/crictl.yaml").content_string


def test_containerd_and_its_parts_are_on_hold(host):
    assert {"containerd", "runc"} <= set(host.run("apt-mark showhold").stdout.split())


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"sed -i s/true/false/ {CONFIGURATION}", "systemctl restart containerd"], 2),
        (["systemctl disable --now containerd", "apt-mark unhold runc"], 2),
    ],
)
def test_drift_is_reported_and_repaired(drift, host, commands, tasks):
    drift(commands, tasks)
    assert "SystemdCgroup = true" in dumped(host)


def test_a_configuration_written_by_a_run_that_died_is_taken_up(host, converge_again):
    """The right file, and a daemon that was started before it came."""
    host.run_expect([0], f"touch {CONFIGURATION}")
    host.run_expect([0], "rm --force /run/appliance/services/containerd.service.json")
    assert converge_again() == 1
    assert converge_again() == 0


def test_nvidias_runtime_is_the_default_one_once_it_is_there(host, converge_again):
    host.run_expect([0], f"ln --symbolic /usr/sbin/runc {NVIDIA}")
    assert converge_again() == 2
    assert 'default_runtime_name = "nvidia"' in dumped(host)
    host.run_expect([0], f"rm {NVIDIA}")
    assert converge_again() == 2
    assert 'default_runtime_name = "runc"' in dumped(host)
