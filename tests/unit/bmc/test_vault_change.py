"""Changes of a vault: one secret is set, all others and every comment stay, and it is encrypted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.site.vault import KEPT, AnsibleVault, SiteVault
from appliance.adapters.site.vault_files import COPIES, MOST_COPIES, keep_copy
from appliance.adapters.site.vault_text import read_secrets, with_secrets
from appliance.errors import ConfigError, Refused
from tests import samples

FILE = Path("group_vars/all/vault.yml")
TEXT = """---
# The registry.
vault_registry_password: abc  # of 2026
vault_bmc_user: admin
# The CA of the BMCs.
vault_bmc_ca_certificate: |2
  -----BEGIN CERTIFICATE-----
  MIIB
  -----END CERTIFICATE-----

# The last.
vault_bmc_password: 'factory: "x"'
vault_list: [a, {b: c}]
"""


def test_other_lines_stay_as_they_are() -> None:
    changed = with_secrets(FILE, TEXT, {"vault_bmc_password_w1": "N-1", "vault_bmc_user": "root"})
    assert (
        changed
        == TEXT.replace("vault_bmc_user: admin\n", 'vault_bmc_user: "root"\n')
        + 'vault_bmc_password_w1: "N-1"\n'
    )


@pytest.mark.parametrize("name", [*read_secrets(FILE, TEXT), "vault_not_there"])
def test_a_secret_is_taken_out_and_no_other(name: str) -> None:
    before = dict(read_secrets(FILE, TEXT))
    before.pop(name, None)
    assert read_secrets(FILE, with_secrets(FILE, TEXT, {name: None})) == before


@pytest.mark.parametrize("text", ["", "---\n", "# nothing\n", "a: b", "a: b\n\n"])
@pytest.mark.parametrize("secret", ["x", 'q"uo\\te', "{{ template }}", "#jinja2:x", "é\u2028", ""])
def test_any_text_becomes_a_secret(text: str, secret: str) -> None:
    changed = with_secrets(FILE, text, {"vault_x": secret})
    assert read_secrets(FILE, changed)["vault_x"] == secret
    assert ("!unsafe" in changed) == (secret[:1] in ("{", "#"))


@pytest.mark.parametrize("text", ["{a: b}\n", "- a\n", "a: b\n...\n", "a: [\n", "a: |\n  b"])
def test_a_form_that_cannot_be_changed_is_refused_without_a_secret(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_secrets(FILE, text, {"vault_x": "canary"})
    assert "canary" not in f"{caught.value.message}{caught.value.hint}{caught.value.details}"


@pytest.fixture
def vault(tmp_path: Path) -> SiteVault:
    file = tmp_path / FILE
    file.parent.mkdir(parents=True)
    (tmp_path / KEPT).parent.mkdir(mode=0o700)
    (tmp_path / KEPT).write_text("password-of-the-vault\n")
    (tmp_path / KEPT).chmod(0o600)
    file.write_text(AnsibleVault(tmp_path / KEPT).encrypt(TEXT))
    file.chmod(0o640)
    return SiteVault(replace(samples.site(), directory=tmp_path))


def test_a_changed_vault_is_encrypted_and_opens(vault: SiteVault, tmp_path: Path) -> None:
    vault.change({"vault_bmc_password_w1": "canary-1", "vault_bmc_user": None})
    content = (tmp_path / FILE).read_text()
    assert content.startswith("$ANSIBLE_VAULT;")
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o640
    assert "canary-1" in vault.read().values()
    assert "vault_bmc_user" not in vault.read()
    plain = [
        path for path in tmp_path.rglob("*") if path.is_file() and "canary" in path.read_text()
    ]
    assert plain == []


def test_a_vault_that_is_a_link_stays_one(vault: SiteVault, tmp_path: Path) -> None:
    """Several sites may share it; a copy beside it would be the only one with a new password."""
    shared = tmp_path / "shared.yml"
    (tmp_path / FILE).rename(shared)
    (tmp_path / FILE).symlink_to(shared)
    vault.change({"vault_bmc_password_w1": "new-1"})
    assert (tmp_path / FILE).is_symlink()
    assert AnsibleVault(tmp_path / KEPT).read(shared).items() >= {
        ("vault_bmc_password_w1", "new-1")
    }


def test_what_another_program_wrote_is_read_anew(vault: SiteVault, tmp_path: Path) -> None:
    before = dict(vault.read())
    (tmp_path / FILE).write_text(AnsibleVault(tmp_path / KEPT).encrypt(TEXT + "vault_y: z\n"))
    assert dict(vault.read()) == before
    assert dict(vault.read_anew()) == dict(vault.read()) == {**before, "vault_y": "z"}


def test_a_vault_that_does_not_open_is_as_it_was(vault: SiteVault, tmp_path: Path) -> None:
    before = (tmp_path / FILE).read_text()
    (tmp_path / KEPT).write_text("another\n")
    with pytest.raises(ConfigError, match="cannot be decrypted"):
        vault.change({"vault_x": "canary"})
    (tmp_path / KEPT).unlink()
    with pytest.raises(Refused, match="password is not known"):
        vault.read()
    assert (tmp_path / FILE).read_text() == before
    (tmp_path / FILE).unlink()
    with pytest.raises(ConfigError, match="does not exist"):
        vault.read()


@pytest.mark.parametrize("ends", ["kill -9 $$", "exit 1", "exec sleep 60"])
def test_a_program_that_ends_after_it_wrote_secrets_shows_none(
    vault: SiteVault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    program = tmp_path / "ansible-vault"
    program.write_text(f"#!/bin/sh\necho 'vault_bmc_password: canary'\n{ends}\n")
    program.chmod(0o755)
    monkeypatch.setattr("appliance.adapters.site.vault.ansible_vault_program", lambda: str(program))
    monkeypatch.setattr("appliance.adapters.site.vault.SECONDS", 0.5)
    with pytest.raises(ConfigError) as caught:
        vault.read()
    said = [caught.value, caught.value.__cause__]
    assert "canary" not in " ".join(f"{vars(one)} {one}" for one in said)


def test_a_vault_that_cannot_be_written_is_as_it_was(
    vault: SiteVault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (tmp_path / FILE).read_text()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("appliance.adapters.site.vault.replace_file", full)
    with pytest.raises(ConfigError, match="No space left on device; it is as it was"):
        vault.change({"vault_x": "canary"})
    assert (tmp_path / FILE).read_text() == before


def test_each_vault_that_was_written_is_kept_encrypted(vault: SiteVault, tmp_path: Path) -> None:
    """An open editor, or an older file from version control, may replace it later."""
    before = (tmp_path / FILE).read_text()
    vault.change({"vault_bmc_password_w1": "canary-1"})
    (tmp_path / FILE).write_text(before)
    (kept,) = (tmp_path / COPIES).iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "canary" not in kept.read_text()
    opened = AnsibleVault(tmp_path / KEPT).read(kept)
    assert "canary-1" in opened.values()


def test_old_copies_make_room_and_other_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / COPIES
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    old = [f"20260101T0000{number:02}Z-{number:012x}.yml" for number in range(MOST_COPIES)]
    for name in old:
        (folder / name).write_text("")
    keep_copy(tmp_path, "$ANSIBLE_VAULT;1.1;AES256\n")
    names = {path.name for path in folder.iterdir()}
    assert len(names) == MOST_COPIES + 1
    assert {old[0]} == {"notes.txt", *old} - names
