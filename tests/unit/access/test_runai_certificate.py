"""The backend's key, request and certificate, and files that are made for people."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from appliance.adapters.runai.certificate import VALID_DAYS, new_key, request_for, sign
from appliance.adapters.runai.files import issuer_ca, write_new
from appliance.adapters.site.authorities import SiteAuthorities
from appliance.errors import ConfigError, Refused
from tests import samples

NAME = "runai.rack.test"
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def key() -> str:
    return new_key()


def _names(found: x509.CertificateSigningRequest | x509.Certificate) -> list[str]:
    extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return extension.value.get_values_for_type(x509.DNSName)


def test_a_request_names_the_backend_and_is_signed_by_its_key(key: str) -> None:
    request = x509.load_pem_x509_csr(request_for(NAME, key).encode())
    assert _names(request) == [NAME]
    assert request.is_signature_valid


def test_a_certificate_by_the_sites_ca_is_a_servers_with_the_chain_behind_it(key: str) -> None:
    authority = SiteAuthorities(NOW).make("rack")
    leaf, issuer = x509.load_pem_x509_certificates(
        sign(request_for(NAME, key), authority, NOW).encode()
    )
    leaf.verify_directly_issued_by(issuer)
    assert _names(leaf) == [NAME]
    assert leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    own = serialization.load_pem_private_key(key.encode(), None).public_key()
    assert leaf.public_key() == own
    assert leaf.not_valid_after_utc - NOW < timedelta(days=VALID_DAYS)


def test_no_certificate_outlives_its_ca(key: str) -> None:
    old = SiteAuthorities(NOW - timedelta(days=3600)).make("rack")
    leaf, issuer = x509.load_pem_x509_certificates(sign(request_for(NAME, key), old, NOW).encode())
    assert leaf.not_valid_after_utc == issuer.not_valid_after_utc


def test_a_ca_that_ended_signs_nothing(key: str) -> None:
    old = SiteAuthorities(NOW - timedelta(days=4000)).make("rack")
    with pytest.raises(Refused, match="the site's CA expired on"):
        sign(request_for(NAME, key), old, NOW)


def test_what_is_no_key_is_refused_without_being_quoted() -> None:
    with pytest.raises(Refused) as caught:
        request_for(NAME, "canary-of-a-key")
    assert "canary" not in str(caught.value)


def test_a_new_file_is_private_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    write_new(path, "one")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused, match="exists already"):
        write_new(path, "two")
    assert path.read_text() == "one"


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be written"):
        write_new(tmp_path / "file" / "below", "text")


def test_the_organisations_ca_vouches_where_it_signed_the_certificate(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(f"subject=x\n{PEM}{PEM.replace('CERTIFICATE', 'PRIVATE KEY')}")
    brought = {"organisation_ca": str(path)}
    signed = samples.site(runai={"certificate": "c.pem"}, certificates=brought)
    # It is sent to a node: a site from somebody else may name any file.
    assert issuer_ca(signed) == PEM
    assert issuer_ca(samples.site(runai={}, certificates=brought)) is None
    assert issuer_ca(samples.site()) is None
    path.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")
    with pytest.raises(ConfigError, match="holds no PEM certificate"):
        issuer_ca(signed)
    path.unlink()
    with pytest.raises(ConfigError, match="is not readable"):
        issuer_ca(signed)
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="is not readable"):
        issuer_ca(signed)
