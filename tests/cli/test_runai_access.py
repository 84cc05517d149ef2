"""``appliance runai csr`` and ``access``: files, modes, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from appliance.adapters.site.authorities import SiteAuthorities
from appliance.adapters.site.vault import AnsibleVault, new_password
from appliance.cli.exits import run
from tests.site_cases import copy_of_good

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT", "ANSIBLE_VAULT_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)
    return copy_of_good(tmp_path / "rack7")


@pytest.fixture
def signing_site(site: Path) -> Path:
    authority = SiteAuthorities().make("rack7")
    secrets = {
        "vault_site_ca_certificate": authority.certificate,
        "vault_site_ca_key": authority.key,
    }
    vault = AnsibleVault(new_password(site))
    (site / "group_vars/all/vault.yml").write_text(vault.encrypt(yaml.safe_dump(secrets)))
    return site


def test_csr_makes_a_private_key_and_a_request(site: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    assert run(["runai", "csr", "--site", str(site), "--out", str(out), "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert sorted(made) == ["csr", "key"]
    key = Path(made["key"])
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    assert run(["runai", "csr", "--site", str(site), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert key.read_bytes() == before, "a key that is there is used again"
    assert "vault_runai_tls_key" in shown.err
    assert "PRIVATE KEY" not in shown.out + shown.err


def test_csr_names_its_files_so_that_they_can_be_copied_into_the_site(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["runai", "csr", "--site", str(site), "--out", "out"]) == 0
    shown = [Path(line) for line in capsys.readouterr().out.split()]
    assert [path.suffix for path in shown] == [".key", ".csr"]
    assert {path.parent for path in shown} == {tmp_path / "out"}


def test_csr_keeps_the_key_out_of_version_control(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(site)
    assert run(["runai", "csr"]) == 0
    shown = [Path(line) for line in capsys.readouterr().out.split()]
    folder = site / ".appliance" / "certificates"
    assert {path.parent for path in shown} == {folder}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert shown[0].stat().st_mode & 0o777 == 0o600
    assert run(["site", "check"]) == 0
    assert run(["runai", "csr", "--out", "."]) == 3
    assert "git would commit the key" in capsys.readouterr().err
    assert run(["site", "check"]) == 0


def test_csr_is_signed_by_the_sites_ca(signing_site: Path, tmp_path: Path, capsys: Capture) -> None:
    words = ["runai", "csr", "--site", str(signing_site), "--out", str(tmp_path / "out"), "--sign"]
    assert run([*words, "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    leaf, issuer = x509.load_pem_x509_certificates(Path(made["crt"]).read_bytes())
    leaf.verify_directly_issued_by(issuer)
    assert run(words) == 3
    assert "exists already" in capsys.readouterr().err


def test_csr_without_the_vaults_password_is_not_signed_and_makes_nothing(
    site: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out"
    assert run(["runai", "csr", "--site", str(site), "--out", str(out), "--sign"]) == 3
    assert "the vault's password is not known" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("name", ["../etc", "ada lovelace", "", "-x: y"])
def test_a_kubeconfig_is_made_for_names_only(site: Path, name: str, capsys: Capture) -> None:
    assert run(["runai", "access", "kubeconfig", "--site", str(site), "--", name]) == 3
    assert "is not a valid name of a person or project" in capsys.readouterr().err


def test_a_site_is_needed_and_a_user(capsys: Capture) -> None:
    assert run(["runai", "access", "kubeconfig"]) == 2
    assert "Usage: appliance runai access kubeconfig" in capsys.readouterr().err
