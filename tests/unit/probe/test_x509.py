"""What is read of a certificate without the openssl command is what the command says."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509 as making
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from appliance.probe.certificates import certificates, x509
from appliance.probe.source import Machine, Request, Source

Attribute = making.NameAttribute
BORN = datetime.datetime(2026, 1, 5, 10, 0, tzinfo=datetime.UTC)
PLAIN: dict[str, Any] = {
    "a name": {"subject": [(NameOID.COMMON_NAME, "registry.rack.test")]},
    "a member": {
        "subject": [(NameOID.ORGANIZATION_NAME, "system:nodes"),
                    (NameOID.COMMON_NAME, "system:node:w1")],
        "names": [making.DNSName("b.test"), making.DNSName("*.a.test"),
                  making.IPAddress(ipaddress.ip_address("10.96.0.1"))],
    },
    "an address of an office": {
        "subject": [(NameOID.COUNTRY_NAME, "DE"), (NameOID.STATE_OR_PROVINCE_NAME, "Hesse"),
                    (NameOID.LOCALITY_NAME, "Frankfurt am Main"),
                    (NameOID.ORGANIZATIONAL_UNIT_NAME, "Rack 1 (test)"),
                    (NameOID.COMMON_NAME, "CA")],
    },
}  # fmt: skip
ODD: dict[str, Any] = {
    "a comma": {"subject": [(NameOID.COMMON_NAME, "Example, Inc")]},
    "a plus": {"subject": [(NameOID.COMMON_NAME, "a+b")]},
    "an umlaut": {"subject": [(NameOID.COMMON_NAME, "Bücher")]},
    "a space at the end": {"subject": [(NameOID.COMMON_NAME, "a ")]},
    "a rare kind of name": {"subject": [(NameOID.EMAIL_ADDRESS, "a@b.test")]},
    "no name at all": {"subject": []},
    "an address of version 6": {
        "subject": [(NameOID.COMMON_NAME, "a")],
        "names": [making.IPAddress(ipaddress.ip_address("fd00::1"))],
    },
    "a name that is a mail address": {
        "subject": [(NameOID.COMMON_NAME, "a")],
        "names": [making.RFC822Name("a@b.test"), making.DNSName("c.test")],
    },
}
KEYS: dict[str, Any] = {
    "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
}


def _made(subject: Any, names: Any = (), key: Any = None) -> tuple[bytes, bytes]:
    """The PEM of a certificate and of its key."""
    key = key or KEYS["ec"]()
    name = making.Name([Attribute(kind, value) for kind, value in subject])
    builder = making.CertificateBuilder(
        issuer_name=name, subject_name=name, public_key=key.public_key(), serial_number=7,
        not_valid_before=BORN, not_valid_after=BORN + datetime.timedelta(days=300),
    )  # fmt: skip
    if names:
        builder = builder.add_extension(making.SubjectAlternativeName(names), critical=False)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return builder.sign(key, digest).public_bytes(serialization.Encoding.PEM), private


def _source() -> Source:
    return Source(Machine(Path("/"), None, Request()), "certificates")


def _by_command(pem: str) -> dict[str, Any]:
    fields = certificates._by_command(_source(), "openssl-x509-test", pem)
    fields.pop("public_key", None)
    return fields


@pytest.mark.parametrize("case", PLAIN.values(), ids=PLAIN)
def test_a_plain_certificate_reads_as_the_command_says(case: dict[str, Any]) -> None:
    pem = _made(**case)[0].decode()
    assert x509.read(pem) is not None
    assert certificates.describe_pem(_source(), "test", pem) == _by_command(pem)


@pytest.mark.parametrize("case", ODD.values(), ids=ODD)
def test_what_is_not_plain_is_left_to_the_command(case: dict[str, Any]) -> None:
    pem = _made(**case)[0].decode()
    assert x509.read(pem) is None
    assert certificates.describe_pem(_source(), "test", pem) == _by_command(pem)


GOOD, GOOD_KEY = _made([(NameOID.COMMON_NAME, "good")])
OTHER, OTHER_KEY = _made([(NameOID.COMMON_NAME, "other")])
TEXTS = {
    "a key before it": (GOOD_KEY + GOOD, True),
    "words around it": (b"Certificate:\n  of w1\n" + GOOD + b"the end\n", True),
    "another after it": (GOOD + OTHER, True),
    "lines that end as on Windows": (GOOD.replace(b"\n", b"\r\n"), True),
    "nothing": (b"", False),
    "a key alone": (GOOD_KEY, False),
    "half of it": (GOOD[: len(GOOD) // 2], False),
    "its end is missing": (GOOD.replace(b"-----END CERTIFICATE-----\n", b""), False),
    "letters that are none": (GOOD.replace(b"MII", b"M!I"), False),
    "another kind": (GOOD.replace(b" CERTIFICATE", b" TRUSTED CERTIFICATE"), False),
}


@pytest.mark.parametrize(("pem", "plain"), TEXTS.values(), ids=TEXTS)
def test_a_file_with_more_or_less_in_it_reads_as_the_command_says(pem: bytes, plain: bool) -> None:
    text = pem.decode()
    assert (x509.read(text) is not None) == plain
    assert certificates.describe_pem(_source(), "test", text) == _by_command(text)


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_is_distinguished_from_another_key_without_the_command(
    kind: str, tmp_path: Path
) -> None:
    pem, key = _made([(NameOID.COMMON_NAME, "a")], key=KEYS[kind]())
    (tmp_path / "a.crt").write_bytes(pem)
    (tmp_path / "a.key").write_bytes(key)
    (tmp_path / "b.key").write_bytes(OTHER_KEY)
    certificate, own, other = (str(tmp_path / name) for name in ("a.crt", "a.key", "b.key"))
    assert x509.belongs(certificate, own)
    assert not x509.belongs(certificate, other)
    assert certificates.describe(_source(), certificate, own)["key_matches"] is True
    assert certificates.describe(_source(), certificate, other)["key_matches"] is False


def test_a_key_with_a_passphrase_matches_nothing_and_asks_nothing(tmp_path: Path) -> None:
    key = KEYS["ec"]()
    (tmp_path / "a.crt").write_bytes(_made([(NameOID.COMMON_NAME, "a")], key=key)[0])
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "a.key").write_bytes(locked)
    found = certificates.describe(_source(), str(tmp_path / "a.crt"), str(tmp_path / "a.key"))
    assert found["key_matches"] is False


def test_certificates_of_the_usual_kind_start_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(Source, "command", lambda _self, key, *_, **__: started.append(key))
    for name in ("ca", "server", "peer"):
        pem, key = _made([(NameOID.COMMON_NAME, name)])
        (tmp_path / f"{name}.crt").write_bytes(pem)
        (tmp_path / f"{name}.key").write_bytes(key)
        path = str(tmp_path / name)
        assert certificates.describe(_source(), path + ".crt", path + ".key")["key_matches"]
    assert started == []
