"""Certificates of a lab's API servers that end when a test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tests.lab.conftest import LabSite

PKI = "/etc/kubernetes/pki"
SERVER = f"{PKI}/apiserver.crt"
# kubeadm gives a certificate one year.
ALMOST_A_YEAR_DAYS = 360


def forge(lab: LabSite, node: str, days: float) -> None:
    """Give a node's API server a certificate of the cluster's CA that ends in so many days."""
    key: Any = serialization.load_pem_private_key(
        lab.shell(node, f"cat {PKI}/ca.key").encode(), None
    )
    old = x509.load_pem_x509_certificate(lab.shell(node, f"cat {SERVER}").encode())
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        # The CA itself is not read: kubeadm gives it the serial number 0, which libraries refuse.
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
    )
    for extension in old.extensions:
        made = made.add_extension(extension.value, extension.critical)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    lab.shell(node, f"cat >{SERVER} <<'END'\n{pem}END")


def days_left(lab: LabSite, node: str) -> float:
    """The days that the certificate has left which the API server of a node shows."""
    text = lab.shell(
        node,
        "echo | timeout 10 openssl s_client -connect 127.0.0.1:6443 2>/dev/null"
        " | openssl x509 -noout -enddate",
    )
    ends = datetime.strptime(text.strip().partition("=")[2], "%b %d %H:%M:%S %Y GMT")
    return (ends.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds() / 86_400
