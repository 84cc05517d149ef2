"""A certificate is made anew exactly when it has to be; with the real openssl command."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from tests.prerequisites import require
from tests.unit.modules.loading import load

request = load("certificate_request", role="site_certificate")
signing = load("certificate_sign", role="site_certificate")

NAMES = ["artifacts.site.test"]
ADDRESSES = ["192.0.2.11"]
NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module", autouse=True)
def openssl() -> None:
    """The modules ask the command."""
    require("openssl")


def run(argv: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Authority:
    """A certificate authority, perhaps below another."""

    def __init__(self, name: str, above: Authority | None = None, days: int = 3650) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(self.subject)
            .issuer_name(above.subject if above else self.subject)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - datetime.timedelta(days=1))
            .not_valid_after(NOW + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(above.key if above else self.key, SHA256())
        )
        own = certificate.public_bytes(serialization.Encoding.PEM).decode()
        self.pem: str = own + (above.pem if above else "")
        self.key_pem = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()


AUTHORITY = Authority("site")


class Holder:
    """A service that holds a certificate in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "tls" / "artifacts")
        self.certificate = request.Certificate(self.path, run)

    def fault(self, names: list[str] | None = None, authority: Authority = AUTHORITY) -> Any:
        wanted = names or [*NAMES, *ADDRESSES]
        return next(self.certificate.faults(wanted, authority.pem, 30), None)

    def issue(self, days: int = 730, authority: Authority = AUTHORITY) -> None:
        self.certificate.make_key()
        want = {
            "csr": self.certificate.request(NAMES[0]),
            "names": NAMES,
            "addresses": ADDRESSES,
            "authority": authority.pem,
            "authority_key": authority.key_pem,
            "valid_days": days,
        }
        self.certificate.crt.write_text(signing.sign(want, NOW))


@pytest.fixture
def holder(tmp_path: Path) -> Holder:
    return Holder(tmp_path)


def test_a_certificate_that_was_issued_needs_no_other(holder: Holder) -> None:
    assert holder.fault() == "there is no certificate"
    holder.issue()
    assert holder.fault() is None
    assert holder.certificate.key.stat().st_mode & 0o777 == 0o600


def test_a_certificate_below_an_intermediate_is_trusted_by_its_root(holder: Holder) -> None:
    below = Authority("below", above=AUTHORITY)
    holder.issue(authority=below)
    assert holder.fault(authority=below) is None
    assert holder.certificate.crt.read_text().count("BEGIN CERTIFICATE") == 2


def test_a_certificate_without_its_key_is_replaced_with_a_new_key(holder: Holder) -> None:
    holder.issue()
    holder.certificate.key.unlink()
    assert holder.fault() == "the certificate has no key"
    holder.issue()
    assert holder.fault() is None


def test_a_key_that_can_be_read_is_kept(holder: Holder) -> None:
    holder.issue()
    before = holder.certificate.key.read_text()
    holder.certificate.crt.unlink()
    holder.issue()
    assert holder.certificate.key.read_text() == before


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("garbage", "cannot be read"),
        ("other key", "belongs to another key"),
        ("broken key", "has no key"),
        ("ends soon", "expires within 30 days"),
        ("other names", "is for 192.0.2.11, artifacts.site.test"),
        ("other authority", "issued by another authority"),
    ],
)
def test_each_fault_is_reported_by_its_reason_and_healed(
    fault: str, words: str, holder: Holder
) -> None:
    holder.issue(days=20 if fault == "ends soon" else 730)
    if fault == "garbage":
        holder.certificate.crt.write_text("garbage")
    if fault == "other key":
        holder.certificate.key.unlink()
        holder.certificate.make_key()
    if fault == "broken key":
        holder.certificate.key.write_text("garbage")
    if fault == "other authority":
        holder.issue(authority=Authority("site"))
    names = ["other.site.test"] if fault == "other names" else None
    assert words in holder.fault(names)
    holder.issue()
    assert holder.fault() is None


def test_what_the_request_asks_for_beyond_its_key_is_not_signed(holder: Holder) -> None:
    holder.issue()
    certificate = x509.load_pem_x509_certificate(holder.certificate.crt.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca


def test_a_certificate_never_outlives_its_authority(holder: Holder) -> None:
    holder.issue(days=99999)
    certificate = x509.load_pem_x509_certificate(holder.certificate.crt.read_bytes())
    authority = x509.load_pem_x509_certificate(AUTHORITY.pem.encode())
    assert certificate.not_valid_after_utc == authority.not_valid_after_utc


def test_a_certificate_is_not_renewed_past_the_end_of_its_ca(
    holder: Holder,
) -> None:
    ending = Authority("ending", days=20)
    holder.issue(authority=ending)
    assert holder.fault(authority=ending) is None


def test_a_key_of_another_authority_is_refused(holder: Holder) -> None:
    wrong = Authority("wrong")
    wrong.pem = AUTHORITY.pem
    with pytest.raises(ValueError, match="matches none of its certificates"):
        holder.issue(authority=wrong)


def test_the_key_belongs_to_root_and_one_group(holder: Holder) -> None:
    holder.issue()
    holder.certificate.key.chmod(0o644)
    state = holder.certificate.key.stat()
    if state.st_uid != 0:
        pytest.skip("only root can give a file away")
    assert request.key_access(holder.certificate.key, "root", True)
    assert request.key_access(holder.certificate.key, "root", False)
    assert not request.key_access(holder.certificate.key, "root", False)
    assert holder.certificate.key.stat().st_mode & 0o777 == 0o600


def request_of(key: ec.EllipticCurvePrivateKey, subject: str) -> x509.CertificateSigningRequest:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, SHA256())


def signed(csr: bytes) -> x509.Certificate:
    want = {
        "csr": csr.decode(), "names": NAMES, "addresses": ADDRESSES, "valid_days": 10,
        "authority": AUTHORITY.pem, "authority_key": AUTHORITY.key_pem,
    }  # fmt: skip
    return x509.load_pem_x509_certificate(signing.sign(want, NOW).encode())


def test_a_node_chooses_neither_the_names_nor_the_subject_of_its_certificate() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    csr = request_of(key, "bank.example").public_bytes(serialization.Encoding.PEM)
    assert signed(csr).subject.rfc4514_string() == f"CN={NAMES[0]}"


def test_a_request_for_a_key_that_did_not_sign_it_is_refused() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    good = bytearray(request_of(key, "x").public_bytes(serialization.Encoding.DER))
    good[-1] ^= 1
    forged = x509.load_der_x509_csr(bytes(good)).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(ValueError, match="not signed by its own key"):
        signed(forged)
