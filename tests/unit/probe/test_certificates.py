"""Certificates on a node, made for the test and read with the real openssl."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.probe import recorded

BORN = datetime.datetime(2026, 1, 5, 10, 0, tzinfo=datetime.UTC)
END = datetime.datetime(2027, 1, 5, 10, 0, tzinfo=datetime.UTC)


def _pair(name: str, *, dns: str = "", ip: str = "") -> tuple[x509.Certificate, bytes, bytes]:
    """A self-signed certificate, its PEM and its key's PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(BORN)
        .not_valid_after(END)
    )
    if dns:
        names = [x509.DNSName(dns), x509.IPAddress(ipaddress.ip_address(ip))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return certificate, certificate.public_bytes(serialization.Encoding.PEM), private


def _write(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return recorded.machine({"machine": "bare-debian-12"}, tmp_path)[0]


def _look(root: Path) -> dict[str, Any]:
    return recorded.look(root, root.parent / "outputs")


def test_a_service_certificate_is_described_and_belongs_to_its_key(root: Path) -> None:
    certificate, pem, key = _pair("registry.rack.test", dns="registry.rack.test", ip="198.51.100.9")
    _write(root, {"/etc/appliance/tls/registry.crt": pem, "/etc/appliance/tls/registry.key": key})
    assert _look(root)["certificates"] == [
        {
            "path": "/etc/appliance/tls/registry.crt",
            "subject": "CN=registry.rack.test",
            "issuer": "CN=registry.rack.test",
            "sans": ["198.51.100.9", "registry.rack.test"],
            "not_before": "2026-01-05T10:00:00Z",
            "not_after": "2027-01-05T10:00:00Z",
            "sha256": certificate.fingerprint(hashes.SHA256()).hex(),
            "key_matches": True,
        }
    ]


def test_the_backends_certificate_is_reported_with_the_vendors_bundle(root: Path) -> None:
    certificate, pem, _ = _pair("runai.rack", dns="runai.rack", ip="198.18.0.3")
    _write(root, {"/etc/appliance/runai/backend.crt": pem})
    found = recorded.look(root, None)["runai"]["certificate"]
    assert found["not_after"] == "2027-01-05T10:00:00Z"
    assert found["sha256"] == certificate.fingerprint(hashes.SHA256()).hex()


def test_a_key_of_another_certificate_is_noticed(root: Path) -> None:
    _, pem, _ = _pair("a")
    _, _, key = _pair("b")
    _write(root, {"/etc/appliance/tls/a.crt": pem, "/etc/appliance/tls/a.key": key})
    assert _look(root)["certificates"][0]["key_matches"] is False


def test_a_key_without_a_certificate_and_the_reverse_are_listed(root: Path) -> None:
    _, pem, key = _pair("a")
    _write(root, {"/etc/appliance/tls/lonely.key": key, "/etc/appliance/tls/open.crt": pem})
    lonely, unlocked = _look(root)["certificates"]
    assert lonely == {
        "path": "/etc/appliance/tls/lonely.crt",
        "error": "missing or not readable",
        "key_matches": None,
    }
    assert unlocked["key_matches"] is None


def test_a_broken_key_does_not_match(root: Path) -> None:
    _, pem, _ = _pair("a")
    _write(root, {"/etc/kubernetes/pki/ca.crt": pem, "/etc/kubernetes/pki/ca.key": b"half a ke"})
    assert _look(root)["kubernetes"]["pki"][0]["key_matches"] is False


def test_the_kubelets_certificate_and_key_in_one_file(root: Path) -> None:
    _, pem, key = _pair("system:node:w1")
    _write(root, {"/var/lib/kubelet/pki/kubelet-client-current.pem": pem + key})
    (entry,) = _look(root)["kubernetes"]["pki"]
    assert (entry["subject"], entry["key_matches"]) == ("CN=system:node:w1", True)


def test_the_site_ca_is_known_as_a_file_to_the_system_and_to_each_runtime(root: Path) -> None:
    certificate, pem, _ = _pair("site CA")
    _, other, _ = _pair("another CA")
    digest = certificate.fingerprint(hashes.SHA256()).hex()
    _write(
        root,
        {
            "/etc/appliance/ca.crt": pem,
            "/etc/docker/certs.d/registry.rack.test:5000/ca.crt": pem,
            "/etc/docker/certs.d/empty.example:5000/readme": b"",
            "/etc/containerd/certs.d/registry.rack.test:5000/ca.crt": pem,
            "/etc/ssl/certs/ca-certificates.crt": other + pem,
        },
    )
    assert _look(root)["trust"] == {
        "site_ca_sha256": digest,
        "site_ca_not_after": "2027-01-05T10:00:00Z",
        "system": True,
        "docker": {"registry.rack.test:5000": digest, "empty.example:5000": None},
        "containerd": {"registry.rack.test:5000": digest},
    }
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(other)
    assert _look(root)["trust"]["system"] is False


def test_no_secret_of_the_node_reaches_the_document(root: Path) -> None:
    _, pem, key = _pair("admin")
    canary = "CANARY" + base64.b64encode(key).decode()[40:80]
    kubeconfig = (
        "- cluster:\n    server: https://api.rack.test:6443\n- user:\n"
        f"    client-certificate-data: {base64.b64encode(pem).decode()}\n"
        f"    client-key-data: {base64.b64encode(key).decode()}\n    token: {canary}\n"
    )
    _write(
        root,
        {
            "/etc/kubernetes/admin.conf": kubeconfig.encode(),
            "/etc/kubernetes/pki/sa.key": key,
            "/etc/kubernetes/pki/ca.crt": pem,
            "/etc/kubernetes/pki/ca.key": key,
            "/etc/appliance/tls/registry.key": key,
            "/etc/environment": f"TOKEN={canary}\nhttp_proxy=http://u:{canary}@p:1\n".encode(),
            "/etc/docker/daemon.json": f'{{"log-opts": {{"t": "{canary}"}}}}'.encode(),
            "/var/lib/appliance/jobs/x.json": f'{{"stdout": "{canary}"}}'.encode(),
            "/root/.docker/config.json": canary.encode(),
        },
    )
    document = _look(root)
    text = repr(document)
    assert canary not in text
    assert key.decode().splitlines()[1] not in text
    assert base64.b64encode(key).decode()[:40] not in text
    assert document["kubernetes"]["kubeconfigs"][0]["subject"] == "CN=admin"
