"""Trust of the registry."""

import pytest

FOLDER = "/etc/docker/certs.d/registry.site.test:5000"


def test_docker_and_containerd_find_the_authority(host):
    assert host.file(f"{FOLDER}/ca.crt").contains("BEGIN CERTIFICATE")
    hosts = host.file("/etc/containerd/certs.d/registry.site.test:5000/hosts.toml")
    assert hosts.contains(f'ca = "{FOLDER}/ca.crt"')


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"rm -r {FOLDER}"], 1),
        ([f"chmod 600 {FOLDER}/ca.crt"], 1),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
