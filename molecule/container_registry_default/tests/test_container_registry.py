"""A registry that holds every image of the bundle."""

import json

import pytest

STORAGE = "/var/lib/docker-registry/docker/registry/v2"
CURL = "curl --silent --fail --cacert /etc/appliance/ca.crt https://registry.site.test:5000/v2"


def test_it_answers_over_tls_with_a_certificate_of_the_site(host):
    assert host.run(f"{CURL}/").stdout.strip() == "{}"
    assert sorted(json.loads(host.run(f"{CURL}/_catalog").stdout)["repositories"]) == [
        "busybox",
        "pause",
    ]


def test_its_key_is_for_root_and_the_registry(host):
    key = host.file("/etc/appliance/tls/registry.key")
    assert (key.user, key.group, key.mode) == ("root", "docker-registry", 0o640)


def test_it_does_not_run_as_root(host):
    pid = host.run("systemctl show -p MainPID --value docker-registry").stdout.strip()
    assert host.run(f"stat -c %U /proc/{pid}").stdout.strip() == "docker-registry"


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (
            [
                f"rm -r {STORAGE}/repositories/pause/_manifests/tags",
                f"rm -r {STORAGE}/repositories/busybox/_layers",
                "apt-mark unhold docker-registry",
                "echo '# theirs' >> /etc/docker/registry/config.yml",
            ],
            3,
        ),
        ([f"rm -r $(dirname $(find {STORAGE}/blobs -name data -size +64k | head -1))"], 1),
        ([f"truncate -s 10 $(find {STORAGE}/blobs -name data -size +64k | head -1)"], 1),
        (["systemctl disable --now docker-registry", "rm /etc/appliance/tls/registry.key"], 3),
    ],
)
def test_drift_is_told_and_repaired(drift, host, commands, tasks):
    drift(commands, tasks)
    assert "1.35.0" in host.run(f"{CURL}/busybox/tags/list").stdout
