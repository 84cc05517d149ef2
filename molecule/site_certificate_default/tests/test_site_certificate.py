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
    assert host.run(
        "grep -rl 'CN = scenario\\|BEGIN.*PRIVATE' /etc/appliance /tmp /root /home"
    ).stdout.split() == [f"{TLS}.key"]


@pytest.mark.parametrize(
    "command",
    [
        f"rm {TLS}.crt",
        f"rm {TLS}.key",
        f"echo garbage > {TLS}.crt",
        f"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out {TLS}.key",
        f"chmod 644 {TLS}.key",
        f"openssl req -x509 -key {TLS}.key -out {TLS}.crt -days 99 -subj /CN=example.site.test"
        " -addext subjectAltName=DNS:example.site.test,DNS:other.site.test,IP:192.0.2.11",
    ],
)
def test_drift_is_told_and_repaired(drift, command):
    drift(command)
