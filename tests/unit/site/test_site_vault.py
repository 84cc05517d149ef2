"""Plays never find the vault closed: it is opened before, with all that a play would have."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.site.files import check_site, load_site
from appliance.adapters.site.vault import ENVIRONMENT, HINT, KEPT, AnsibleVault, new_password
from appliance.adapters.site.vault_check import IDENTITIES, require_open, with_vault
from appliance.errors import ConfigError, Refused
from appliance.model.site.settings import Site
from appliance.model.site.vault_ref import CA_FILE
from tests.site_cases import KNOWN, copy_of_good


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ENVIRONMENT, IDENTITIES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site whose vault was sealed with a password that lies outside of it."""
    directory = copy_of_good(tmp_path / "rack7")
    vault = AnsibleVault(new_password(tmp_path))
    (directory / "group_vars/all/vault.yml").write_text(
        vault.encrypt(f"vault_registry_password: {'k' * 24}\nvault_site_ca_key: key\n")
    )
    return load_site(directory, known=KNOWN)


def test_without_a_password_the_vault_and_both_ways_to_give_it_are_named(site: Site) -> None:
    with pytest.raises(Refused, match=r"vault\.yml: the vault's password is not known") as refused:
        require_open(site)
    assert refused.value.exit_code == 3
    assert ENVIRONMENT in (refused.value.hint or "")
    assert str(KEPT) in (refused.value.hint or "")
    assert "--vault-password-file" not in (refused.value.hint or "")


def test_the_right_password_opens_it_from_each_place(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / KEPT
    monkeypatch.setenv(ENVIRONMENT, str(password))
    require_open(site)
    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setenv(IDENTITIES, f"rack7@{password}")
    require_open(site)
    monkeypatch.delenv(IDENTITIES)
    (site.directory / ".appliance").mkdir()
    (site.directory / KEPT).write_text(password.read_text())
    (site.directory / KEPT).chmod(0o600)
    require_open(site)


def test_another_password_is_refused_and_found_by_the_check(site: Site) -> None:
    kept = new_password(site.directory)
    with pytest.raises(
        ConfigError, match=rf"vault\.yml cannot be decrypted with the password in {kept}"
    ):
        require_open(site)
    found = with_vault(check_site(site.directory, known=KNOWN))
    assert found.site is None
    assert [fault.problem for fault in found.faults] == [
        f"cannot be decrypted with the password in {kept}"
    ]


def test_a_check_without_a_password_leaves_the_vault_closed_and_says_so(site: Site) -> None:
    found = with_vault(check_site(site.directory, known=KNOWN))
    assert found.site is not None
    assert found.faults == ()
    (warning,) = found.warnings
    assert warning.file == str(site.vault_file)
    assert warning.problem == "the vault was not checked: no password available"
    assert warning.remedy == HINT


def test_names_that_nothing_reads_are_named_with_the_nearest(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / KEPT))
    vault = AnsibleVault(tmp_path / KEPT)
    held = f"vault_registry_password: {'k' * 24}\nvault_runai_admin_pasword: x\n"
    site.vault_file.write_text(vault.encrypt(held))
    authority = site.directory / CA_FILE
    authority.parent.mkdir()
    authority.write_text(vault.encrypt("vault_site_ca_key: key\n"))
    found = with_vault(check_site(site.directory, known=KNOWN))
    assert found.faults == ()
    assert [(w.file, w.problem, w.remedy) for w in found.warnings] == [
        (
            str(site.vault_file),
            "nothing reads 'vault_runai_admin_pasword'",
            "did you mean 'vault_runai_admin_password'?",
        )
    ]


def test_a_site_without_the_key_of_its_ca_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / KEPT))
    text = AnsibleVault(tmp_path / KEPT).encrypt(f"vault_registry_password: {'k' * 24}\n")
    site.vault_file.write_text(text)
    with pytest.raises(Refused, match=rf"{CA_FILE}: vault_site_ca_key is missing") as refused:
        require_open(site)
    assert f"git log -- {CA_FILE}" in (refused.value.hint or "")


def test_an_older_site_with_the_key_in_the_vault_opens_with_a_warning(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / KEPT))
    (warning,) = with_vault(check_site(site.directory, known=KNOWN)).warnings
    assert warning.problem.startswith("vault_site_ca_key is a variable of every node")
    assert CA_FILE in warning.remedy


def test_a_site_without_a_vault_has_nothing_to_open(site: Site, tmp_path: Path) -> None:
    require_open(replace(site, directory=tmp_path / "elsewhere"))
