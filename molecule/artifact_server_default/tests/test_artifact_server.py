"""The bundle on the services node."""

import pytest

BUNDLE = "/var/lib/appliance/bundle"
URL = "https://artifacts.site.test:9443"
CURL = f"curl --silent --fail --insecure --resolve artifacts.site.test:9443:127.0.0.1 {URL}"


def test_the_bundle_is_marked_with_its_digest(host):
    digest = host.run(f"sha256sum {BUNDLE}/manifest.json").stdout.split()[0]
    assert host.file("/var/lib/appliance/bundle.verified").content_string.strip() == digest


def test_the_bundle_is_one_of_several_behind_a_link(host):
    digest = host.run(f"sha256sum {BUNDLE}/manifest.json").stdout.split()[0]
    assert host.file(BUNDLE).is_symlink
    assert host.file(BUNDLE).linked_to == f"/var/lib/appliance/bundles/{digest}"
    assert host.file(f"/var/lib/appliance/bundles/{digest}").mode == 0o755


def test_it_is_served_over_tls_and_nothing_else_is_served(host):
    assert (
        host.run(f"{CURL}/manifest.json").stdout
        == host.file(f"{BUNDLE}/manifest.json").content_string
    )
    assert host.run(f"{CURL}/apt/Packages").rc == 0
    assert host.run(f"{CURL}/../bundle.verified --path-as-is").rc != 0
    assert not host.socket("tcp://0.0.0.0:80").is_listening


def test_it_cannot_be_written_over_the_network(host):
    assert host.run(f"{CURL}/x --upload-file /etc/hostname").rc != 0
    assert not host.file(f"{BUNDLE}/x").exists


def test_the_server_is_on_hold_and_starts_at_boot(host):
    assert "nginx-light" in host.run("apt-mark showhold").stdout
    assert host.service("nginx").is_enabled


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (
            [
                f"printf X | dd of={BUNDLE}/bin/crane bs=1 seek=100 conv=notrunc",
                f"rm -r {BUNDLE}/images",
                "systemctl disable --now nginx",
                "apt-mark unhold nginx-light",
            ],
            # Of the manifest's copy rsync repairs the folder's time, which the removal changed.
            6,
        ),
        (
            [
                f"echo foreign > {BUNDLE}/manifest.json",
                "echo '# theirs' >> /etc/nginx/conf.d/appliance.conf",
                "ln -sf /etc/nginx/sites-available/default /etc/nginx/sites-enabled/default",
                "rm /etc/appliance/tls/artifacts.crt",
            ],
            7,
        ),
    ],
)
def test_drift_is_reported_and_repaired(drift, host, commands, tasks):
    drift(commands, tasks)
    assert host.run(f"{CURL}/manifest.json").rc == 0
