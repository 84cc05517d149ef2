"""Certificates of a lab's API servers and kubelets that end when a test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tests.lab.conftest import LabSite

PKI = "/etc/kubernetes/pki"
SERVER = f"{PKI}/apiserver.crt"
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
# kubeadm gives a certificate one year.
ALMOST_A_YEAR_DAYS = 360


def forge(lab: LabSite, node: str, days: float) -> None:
    """Give a node's API server a certificate of the cluster's CA that ends in so many days."""
    key: Any = serialization.load_pem_private_key(
        lab.shell(node, f"cat {PKI}/ca.key").encode(), None
    )
    old = x509.load_pem_x509_certificate(lab.shell(node, f"cat {SERVER}").encode())
    lab.shell(node, f"cat >{SERVER} <<'END'\n{_signed(old, key, days)}END")


def forge_kubelet(lab: LabSite, node: str, days: float) -> None:
    """Give a node's kubelet a client certificate that ends in so many days, and restart it."""
    key: Any = serialization.load_pem_private_key(
        lab.shell("cp1", f"cat {PKI}/ca.key").encode(), None
    )
    text = lab.shell(node, f"cat {KUBELET}")
    old = x509.load_pem_x509_certificate(text.encode())
    own = text[text.rindex("-----BEGIN") :]
    # Through the link: the file that it leads to is the kubelet's.
    lab.shell(node, f"cat >{KUBELET} <<'END'\n{_signed(old, key, days)}{own}END")
    lab.shell(node, "systemctl restart kubelet", check=False)


def kubelet_days_left(lab: LabSite, node: str) -> float:
    """The days that the client certificate of a node's kubelet has left."""
    pem = lab.shell(node, f"cat {KUBELET}").encode()
    left = x509.load_pem_x509_certificate(pem).not_valid_after_utc - datetime.now(UTC)
    return left.total_seconds() / 86_400


def _signed(old: x509.Certificate, key: Any, days: float) -> str:
    """The same certificate with another end, signed by the cluster's CA."""
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        # The CA itself is not read: kubeadm gives it the serial number 0, which libraries refuse.
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=300))
        .not_valid_after(now + timedelta(days=days))
    )
    for extension in old.extensions:
        made = made.add_extension(extension.value, extension.critical)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def days_left(lab: LabSite, node: str) -> float:
    """The days that the certificate has left which the API server of a node shows."""
    text = lab.shell(
        node,
        "echo | timeout 10 openssl s_client -connect 127.0.0.1:6443 2>/dev/null"
        " | openssl x509 -noout -enddate",
    )
    ends = datetime.strptime(text.strip().partition("=")[2], "%b %d %H:%M:%S %Y GMT")
    return (ends.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds() / 86_400
