"""The registry's password in the vault: made with a new site, asked for in one that is older."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from appliance.adapters.site.files import load_site
from appliance.adapters.site.vault import AnsibleVault, new_password
from appliance.adapters.site.vault_check import require_open
from appliance.errors import Refused
from appliance.model.site.files.secrets import (
    EXTERNAL_PASSWORD,
    PULL_PASSWORD,
    missing_in,
    pull_secret,
    push_secret,
    registry_secrets,
)
from appliance.model.site.settings import Site
from tests import samples
from tests.site_cases import copy_of_good

GOOD = "k" * 24
CA_KEY = "vault_site_ca_key: key\n"


def site_with(tmp_path: Path, text: str) -> Site:
    directory = copy_of_good(tmp_path / "rack7")
    site = load_site(directory)
    site.vault_file.write_text(AnsibleVault(new_password(directory)).encrypt(f"{text}{CA_KEY}"))
    return site


def test_a_vault_with_the_password_opens(tmp_path: Path) -> None:
    require_open(site_with(tmp_path, f"vault_registry_password: {GOOD}\n"))


def test_a_vault_of_an_older_site_is_refused_with_the_command_that_adds_the_password(
    tmp_path: Path,
) -> None:
    site = site_with(tmp_path, "---\nvault_one: kept\n")
    with pytest.raises(Refused, match="vault_registry_password is missing") as refused:
        require_open(site)
    assert refused.value.hint is not None
    subprocess.run(["sh", "-c", refused.value.hint], check=True, timeout=60, cwd="/")
    require_open(site)
    held = AnsibleVault(new_password(site.directory)).read(site.vault_file)
    assert held["vault_one"] == "kept"
    assert len(held["vault_registry_password"]) == 64


@pytest.mark.parametrize(
    "value",
    ["short", "'; return 200; #'" * 3, '"' * 30, "$host" * 6, "a b" * 10, "k" * 129, GOOD + "\n"],
)
def test_a_password_that_a_configuration_would_read_as_more_is_refused_and_not_shown(
    value: str,
) -> None:
    said = missing_in({"vault_registry_password": value})
    assert said is not None
    assert value not in said


def test_two_new_passwords_differ_and_are_plain_text_to_yaml(tmp_path: Path) -> None:
    vault = AnsibleVault(new_password(tmp_path))
    one, other = vault.new_secret(), vault.new_secret()
    assert one != other
    assert yaml.safe_load(f"name: {one}") == {"name": one}
    assert missing_in({"vault_registry_password": one}) is None


@pytest.mark.parametrize(
    ("users", "push", "pull"),
    [
        ({}, None, None),
        ({"user": "bot"}, EXTERNAL_PASSWORD, EXTERNAL_PASSWORD),
        ({"user": "bot", "pull_user": "reader"}, EXTERNAL_PASSWORD, PULL_PASSWORD),
        ({"pull_user": "reader"}, PULL_PASSWORD, PULL_PASSWORD),
    ],
)
def test_pushes_and_pulls_each_have_the_password_of_their_user(
    users: dict[str, str], push: str | None, pull: str | None
) -> None:
    site = samples.site(registry="harbor.test:443", external_registry={"ca": "ca.crt", **users})
    assert (push_secret(site), pull_secret(site)) == (push, pull)
    assert registry_secrets(site) == tuple(sorted({name for name in (push, pull) if name}))
    assert (missing_in({}, registry_secrets(site)) is None) == (not users)


def test_the_registry_of_the_appliance_needs_its_own_password_alone() -> None:
    assert registry_secrets(samples.site()) == ("vault_registry_password",)
    assert pull_secret(samples.site()) is None


@pytest.mark.parametrize("value", ["", "x" * 257, "a\nb", "gr\u00fcn", "a\tb"])
def test_a_password_of_the_organisation_is_printable_and_not_shown(value: str) -> None:
    said = missing_in({EXTERNAL_PASSWORD: value}, [EXTERNAL_PASSWORD])
    assert said is not None
    assert not value or value not in said


def test_a_password_of_the_organisation_may_be_short_and_have_any_sign() -> None:
    assert missing_in({EXTERNAL_PASSWORD: "a b'\"$;"}, [EXTERNAL_PASSWORD]) is None


def test_only_a_person_knows_the_password_of_the_organisations_registry(tmp_path: Path) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    path = directory / "group_vars/all/site.yml"
    old = "registry: registry.appliance.example:5000"
    new = "registry: harbor.example:443\nexternal_registry: {ca: hosts.yml, user: bot}"
    path.write_text(path.read_text().replace(old, new))
    site = load_site(directory)
    site.vault_file.write_text(AnsibleVault(new_password(directory)).encrypt("vault_one: kept\n"))
    with pytest.raises(Refused, match=f"{EXTERNAL_PASSWORD} is missing") as refused:
        require_open(site)
    assert refused.value.hint is not None
    assert f"'{EXTERNAL_PASSWORD}: PASSWORD'" in refused.value.hint
