"""The flags of each generation, and nothing that the vendor's command does not know."""

from __future__ import annotations

import pytest

from appliance.model.runai_values import generate_values, minor

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
    assert minor("2.10.0") > minor("2.9.7")
    with pytest.raises(ValueError, match="not enough"):
        minor("2")
