"""A real etcd on the loopback, with the programs of a bundle and kubeadm's files."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.archives import SAFELY

NAMES: Final = ("etcd", "etcdctl", "etcdutl")


def unpack_programs(bundle: Path, folder: Path) -> Path:
    """Put etcd, etcdctl and etcdutl of a bundle's image into a folder."""
    artifacts = json.loads((bundle / "manifest.json").read_text())["artifacts"]
    (etcd,) = (one for one in artifacts if (one["name"], one["kind"]) == ("etcd", "image"))
    for layer in json.loads((bundle / etcd["path"]).read_text())["layers"]:
        with tarfile.open(bundle / "images/blobs" / layer["digest"].replace(":", "/")) as tar:
            for one in tar:
                if Path(one.name).name in NAMES and one.isfile():
                    one.name = Path(one.name).name
                    tar.extract(one, folder, **SAFELY)
    return folder


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def make_pki(pki: Path) -> None:
    """Write a CA and what it signs, under the names that kubeadm gives."""
    (pki / "etcd").mkdir(parents=True)
    ca_key, ca_name = _key(), _name("etcd-ca")
    ca = _certificate(ca_name, ca_name, ca_key, ca_key, is_ca=True)
    (pki / "etcd/ca.crt").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    for name in ("etcd/server", "etcd/peer", "apiserver-etcd-client"):
        key = _key()
        certificate = _certificate(_name(Path(name).name), ca_name, key, ca_key, is_ca=False)
        (pki / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (pki / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: Any, signer: Any, *, is_ca: bool
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )


class Served(NamedTuple):
    """A running etcd: its client port, its data folder, its process."""

    port: int
    data: Path
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def serving(programs: Path, pki: Path, data: Path) -> Iterator[Served]:
    """Run an etcd of one member until the end of the block."""
    with socket.socket() as one, socket.socket() as two:
        for free in (one, two):
            free.bind(("127.0.0.1", 0))
        port, peer = one.getsockname()[1], two.getsockname()[1]
    client, own = f"https://127.0.0.1:{port}", f"https://127.0.0.1:{peer}"
    process = subprocess.Popen(
        [
            programs / "etcd", "--name=cp1", f"--data-dir={data}", f"--initial-cluster=cp1={own}",
            f"--initial-advertise-peer-urls={own}", f"--listen-peer-urls={own}",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            "--client-cert-auth", f"--trusted-ca-file={pki}/etcd/ca.crt", "--log-level=error",
            f"--cert-file={pki}/etcd/server.crt", f"--key-file={pki}/etcd/server.key",
            "--peer-client-cert-auth", f"--peer-trusted-ca-file={pki}/etcd/ca.crt",
            f"--peer-cert-file={pki}/etcd/peer.crt", f"--peer-key-file={pki}/etcd/peer.key",
        ],
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _await(port, process)
        yield Served(port, data, process)
    finally:
        process.kill()
        process.wait(10)


def _await(port: int, process: subprocess.Popen[bytes], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert process.poll() is None, "etcd ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    pytest.fail("etcd does not listen")
