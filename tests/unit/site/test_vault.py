"""The vault opens with its password, from wherever it comes, and leaves no plain text behind."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from appliance.adapters.site.authorities import SiteAuthorities
from appliance.adapters.site.vault import (
    ENVIRONMENT,
    KEPT,
    AnsibleVault,
    find_password_file,
    new_password,
    password_source,
    read_as_a_play,
    vault_of,
)
from appliance.errors import ConfigError, Refused
from appliance.model.site.vault_ref import CA_FILE
from tests import samples
from tests.site_cases import EXAMPLE


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


def test_a_vault_of_comments_alone_has_no_secret(tmp_path: Path) -> None:
    vault = AnsibleVault(new_password(tmp_path))
    file = tmp_path / "vault.yml"
    file.write_text(vault.encrypt("---\n# nothing yet\n"), encoding="utf-8")
    assert vault.read(file) == {}


def test_what_is_sealed_can_be_read_with_the_same_password_alone(tmp_path: Path) -> None:
    vault = AnsibleVault(new_password(tmp_path))
    file = tmp_path / "vault.yml"
    file.write_text(vault.encrypt("---\nvault_one: canary-3f1c\n"), encoding="utf-8")
    assert "canary" not in file.read_text(encoding="utf-8")
    assert vault.read(file) == {"vault_one": "canary-3f1c"}
    other = tmp_path / "other"
    other.write_text("wrong\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be decrypted with the password") as refused:
        AnsibleVault(other).read(file)
    assert ENVIRONMENT in (refused.value.hint or "")
    file.write_text(vault.encrypt("canary-3f1c: [\n"), encoding="utf-8")
    with pytest.raises(ConfigError, match="is not a mapping") as refused:
        vault.read(file)
    assert "canary" not in f"{refused.value} {refused.value.details} {refused.value.__cause__}"


def test_for_many_bmcs_at_once_the_vault_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = replace(samples.site(), directory=tmp_path)
    site.vault_file.parent.mkdir(parents=True)
    site.vault_file.write_text("sealed", encoding="utf-8")
    new_password(tmp_path)
    opened: list[Path] = []

    def open_it(_vault: AnsibleVault, file: Path) -> dict[str, str]:
        opened.append(file)
        if len(opened) == 1:
            raise ConfigError("it took too long")
        time.sleep(0.05)
        return {"vault_one": "canary"}

    monkeypatch.setattr(AnsibleVault, "read", open_it)
    read = vault_of(site)
    with pytest.raises(ConfigError):
        read()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _number: read(), range(8)))
    assert found == [{"vault_one": "canary"}] * 8
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LANG", "de_DE.UTF-8"),
        ("LC_TIME", "de_DE.UTF-8"),
        ("LANGUAGE", "de"),
        ("LC_ALL", "C"),
        ("LC_ALL", "POSIX"),
    ],
)
def test_a_locale_that_this_machine_lacks_is_no_hindrance(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("LANG", "LC_ALL"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    password = new_password(tmp_path)
    file = tmp_path / "vault.yml"
    file.write_text(AnsibleVault(password).encrypt("vault_one: grün\n"), encoding="utf-8")
    assert AnsibleVault(password).read(file) == {"vault_one": "grün"}
    assert read_as_a_play(file, password) == {"vault_one": "grün"}


def test_only_ansibles_words_for_a_wrong_password_blame_the_password(tmp_path: Path) -> None:
    file = tmp_path / "vault.yml"
    file.write_text(AnsibleVault(new_password(tmp_path)).encrypt("vault_one: x\n"))
    empty = tmp_path / "empty"
    empty.touch()
    for reading in (AnsibleVault(empty).read, lambda path: read_as_a_play(path, empty)):
        with pytest.raises(ConfigError) as refused:
            reading(file)
        assert refused.value.message == (
            f"{file} cannot be opened: Invalid vault password was provided from file ({empty})"
        )
        assert refused.value.hint == (
            f"see Ansible's error: ansible-vault view --vault-password-file {empty} {file}"
        )


def test_a_password_file_that_may_not_be_read_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = new_password(tmp_path / "rack7")
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.F_OK or Path(path) != kept)
    with pytest.raises(Refused, match=f"you may not read the vault password file {kept}") as told:
        find_password_file(tmp_path / "rack7")
    assert "sudo chown" in (told.value.hint or "")
    assert str(kept) in (told.value.hint or "")


def test_a_mapping_of_secrets_can_be_read_back(tmp_path: Path) -> None:
    vault = AnsibleVault(new_password(tmp_path))
    file = tmp_path / "vault.yml"
    file.write_text(vault.encrypt("vault_runai_values: {initTenant: {admin: it's}}\n"))
    assert json.loads(vault.read(file)["vault_runai_values"]) == {"initTenant": {"admin": "it's"}}


def test_the_examples_vault_opens_with_its_documented_password_and_holds_no_key(
    tmp_path: Path,
) -> None:
    (tmp_path / "password").write_text("example\n", encoding="utf-8")
    vault = AnsibleVault(tmp_path / "password")
    secrets = vault.read(EXAMPLE / "group_vars/all/vault.yml")
    assert set(secrets) == {"vault_site_ca_certificate"}
    authority = vault.read(EXAMPLE / CA_FILE)
    assert set(authority) == {"vault_site_ca_key"}
    assert not any("BEGIN" in value for value in (*secrets.values(), *authority.values()))


def test_a_password_comes_from_the_named_file_then_the_environment_then_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "rack7"
    assert find_password_file(site) is None
    kept = new_password(site)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert find_password_file(site) == kept
    assert new_password(site).read_text() == kept.read_text()
    for name in ("environment", "named"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "environment"))
    assert find_password_file(site) == tmp_path / "environment"
    assert find_password_file(site, tmp_path / "named") == tmp_path / "named"
    with pytest.raises(Refused, match=r"--vault-password-file names .*/nowhere, which does not"):
        find_password_file(site, tmp_path / "nowhere")


def test_a_variable_that_names_no_file_is_named_and_not_told_to_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, "/nope")
    with pytest.raises(Refused) as refused:
        find_password_file(tmp_path)
    assert refused.value.message == (
        f"{ENVIRONMENT} names the vault password file /nope, which does not exist"
    )
    assert refused.value.hint == (
        f"correct {ENVIRONMENT}, or leave it out: then {KEPT} of the site is used"
    )


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_password_that_others_may_read_is_refused_with_the_command(
    mode: int, tmp_path: Path
) -> None:
    kept = new_password(tmp_path / "rack7")
    kept.chmod(mode)
    for site, given in ((tmp_path / "rack7", None), (tmp_path, kept)):
        with pytest.raises(Refused, match="other users of this machine may read") as refused:
            find_password_file(site, given)
        assert refused.value.hint == f"chmod 600 {kept}"
    kept.chmod(0o600)
    assert find_password_file(tmp_path / "rack7") == kept


def test_a_named_program_that_prints_the_password_may_be_readable(tmp_path: Path) -> None:
    program = tmp_path / "password.sh"
    program.write_text("#!/bin/sh\necho secret\n")
    program.chmod(0o755)
    assert find_password_file(tmp_path, program) == program


def test_a_password_that_was_typed_lives_as_long_as_it_is_needed(tmp_path: Path) -> None:
    with password_source(tmp_path, ask=lambda: "typed") as path:
        assert path.read_text(encoding="utf-8") == "typed\n"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
    with (
        pytest.raises(Refused, match="is not known") as refused,
        password_source(tmp_path),
    ):
        pass
    assert "--vault-password-file FILE or --new-vault-password" in (refused.value.hint or "")


def test_the_sites_authority_signs_servers_and_no_further_authority() -> None:
    now = datetime(2024, 2, 29, tzinfo=UTC)
    authority = SiteAuthorities(now).make("rack7")
    certificate = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = serialization.load_pem_private_key(authority.key.encode(), None)
    assert certificate.public_key() == key.public_key()
    assert certificate.subject == certificate.issuer
    assert "rack7 site CA" in certificate.subject.rfc4514_string()
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    assert certificate.not_valid_before_utc < now
    assert certificate.not_valid_after_utc > now + timedelta(days=3649)
    assert "PRIVATE" not in repr(authority)


def test_a_program_in_the_place_of_the_sites_password_is_not_run(tmp_path: Path) -> None:
    """Ansible runs an executable password file; a site may have come from somebody else."""
    kept = new_password(tmp_path / "rack7")
    kept.write_text("#!/bin/sh\ntouch PWNED\n", encoding="utf-8")
    kept.chmod(0o700)
    with pytest.raises(Refused, match=f"{kept} is executable") as told:
        find_password_file(tmp_path / "rack7")
    assert f"chmod 600 {kept}" in (told.value.hint or "")
