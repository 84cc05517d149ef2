"""The flags of each generation, and nothing that the vendor's command does not know."""

from __future__ import annotations

import pytest

from appliance.model.bundle.release.runai_versions import minor_of
from appliance.model.components.runai.values import generate_values

ADDRESS = "--external-ips 198.51.100.5"
NFS = "--nfs-server nfs --nfs-path /srv"
VOLUMES = ("nfs", "/srv")
COMMON = "generate-values --domain runai.rack.test --tls-cert /c.crt --tls-key /c.key"


@pytest.mark.parametrize(
    ("version", "nfs", "rest"),
    [
        ("2.4.0", VOLUMES, f"{ADDRESS} {NFS} --airgapped"),
        ("2.7.14", VOLUMES, f"{ADDRESS} {NFS} --airgapped"),
        ("2.8.1", VOLUMES, f"{ADDRESS} {NFS} --registry r:5000"),
        ("2.9.2", None, "--registry r:5000"),
        ("2.10.0", VOLUMES, f"{NFS} --registry r:5000"),
    ],
)
def test_flags_by_generation(version: str, nfs: tuple[str, str] | None, rest: str) -> None:
    made = generate_values(
        version,
        domain="runai.rack.test",
        addresses=["198.51.100.5"],
        certificate="/c.crt",
        key="/c.key",
        nfs=nfs,
        registry="r:5000",
    )
    assert made == f"{COMMON} {rest}".split()


def test_a_version_is_compared_by_its_numbers() -> None:
    older, newer = minor_of("2.9.7"), minor_of("v2.10.0")
    assert older is not None
    assert newer is not None
    assert newer > older
    assert minor_of("2") is None


def test_no_arguments_are_made_for_what_is_no_version() -> None:
    with pytest.raises(ValueError, match="'2' is not a version of Run:ai"):
        generate_values(
            "2", domain="d", addresses=(), certificate="c", key="k", nfs=None, registry="r:5000"
        )
