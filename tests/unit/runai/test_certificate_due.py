"""The backend's certificate makes step ``runai`` due: another one in the site, or one that ends."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.local.content import find_content_root
from appliance.adapters.runai.files import backend_certificate
from appliance.model.components.runai.unmet import certificate
from appliance.model.state.certificates import RENEW_DAYS
from appliance.model.state.facts.facts import NodeFacts
from tests import samples

BODY = b"the bytes of a certificate"
PEM = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(BODY).decode()}\n-----END CERTIFICATE-----\n"
SHA256 = hashlib.sha256(BODY).hexdigest()


def due(seen: dict[str, Any] | None, pem: str | None = None, **overrides: Any) -> list[str]:
    runai = {"certificate": "c.pem"} if pem else {}
    desired = samples.desired(samples.site(1, 2, runai=runai, role_overrides=overrides))
    document = samples.converged(desired.site.vendor_node, desired)
    document["runai"] = {"certificate": seen}
    return list(
        certificate(dataclasses.replace(desired, backend_certificate=pem), NodeFacts(document))
    )


def test_another_certificate_in_the_site_is_brought() -> None:
    assert due({"sha256": SHA256}, PEM) == []
    (said,) = due({"sha256": "00" * 32}, PEM)
    assert "is not the one in site.yml" in said
    assert due(None, PEM) == [said]


def test_one_of_the_sites_ca_is_recreated_before_it_ends() -> None:
    # The sample's clock is at 2023-11-14T22:13:20Z.
    assert due({"not_after": "2023-12-14T23:00:00Z"}) == []
    assert due({"not_after": "2023-11-24T22:13:20Z"}) == [
        "the backend's certificate expires in 10 days"
    ]
    assert due(None) == []


def test_it_is_due_when_the_role_would_make_another_and_no_sooner() -> None:
    seen = {"not_after": "2023-11-24T22:13:20Z"}
    assert due(seen, site_certificate={"site_certificate_renew_days": 5}) == []
    assert due(seen, site_certificate={"site_certificate_renew_days": 11}) != []


def test_the_role_then_makes_another() -> None:
    path = find_content_root() / "roles/site_certificate/defaults/main.yml"
    assert yaml.safe_load(path.read_text())["site_certificate_renew_days"] == RENEW_DAYS


def test_only_the_certificates_of_the_file_are_taken(tmp_path: Path) -> None:
    """What is taken is in the run's inventory, in plain text; the path may have any letter."""
    site = dataclasses.replace(
        samples.site(runai={"certificate": "o'b {{ x }}"}), directory=tmp_path
    )
    file = tmp_path / "o'b {{ x }}"
    key = PEM.replace("CERTIFICATE", "PRIVATE KEY")
    file.write_text(f"Bag Attributes\n{key}{PEM}subject=x\n{PEM}{{{{ 7*7 }}}}\n")
    assert backend_certificate(site) == PEM + PEM
    file.write_text(key)
    assert backend_certificate(site) is None
    file.unlink()
    os.mkfifo(file)
    assert backend_certificate(site) is None


@pytest.mark.parametrize("named", ["c.pem", "/nowhere/c.pem"])
def test_what_cannot_be_read_is_left_to_the_check_of_the_certificate(
    tmp_path: Path, named: str
) -> None:
    site = dataclasses.replace(samples.site(runai={"certificate": named}), directory=tmp_path)
    assert backend_certificate(site) is None
    (tmp_path / "c.pem").write_text(PEM)
    assert backend_certificate(site) == (PEM if named == "c.pem" else None)
    assert backend_certificate(samples.site(runai={})) is None
