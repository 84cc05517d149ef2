"""A certificate of the site's authority."""

import pytest

TLS = "/etc/appliance/tls/example"


def test_key_and_certificate_belong_together(host):
    of_key = host.run(f"openssl pkey -in {TLS}.key -pubout").stdout
    assert of_key
    assert host.run(f"openssl x509 -in {TLS}.crt -noout -pubkey").stdout == of_key


def test_the_key_is_for_root_alone(host):
    key = host.file(f"{TLS}.key")
    assert (key.user, key.group, key.mode) == ("root", "root", 0o600)


def test_the_names_are_those_asked_for(host):
    names = host.run(f"openssl x509 -in {TLS}.crt -noout -ext subjectAltName").stdout
    assert "DNS:example.site.test, DNS:other.site.test, IP Address:192.0.2.11" in names


def test_the_key_of_the_authority_never_came_here(host):
    found = host.run("grep -rl 'BEGIN.*PRIVATE' /etc/appliance /tmp /root /home").stdout
    assert found.split() == [f"{TLS}.key"]


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"rm {TLS}.crt"], 2),
        ([f"rm {TLS}.key"], 2),
        ([f"chmod 644 {TLS}.key"], 1),
        (
            [
                f"openssl req -x509 -key {TLS}.key -out {TLS}.crt -days 99"
                " -subj /CN=example.site.test -addext subjectAltName="
                "DNS:example.site.test,DNS:other.site.test,IP:192.0.2.11"
            ],
            2,
        ),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
