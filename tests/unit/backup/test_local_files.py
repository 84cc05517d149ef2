"""What this machine gives to a backup: the site's files, and what is not read is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance.adapters.backup import sources
from appliance.adapters.backup.age import new_identity
from appliance.adapters.backup.sources import local_files

FOLLOWED = "which is not followed"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    for name in (".appliance/journal/1.json", ".git/config", "group_vars/all/site.yml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def found(site: Path) -> dict[str, bytes | str]:
    """Name of a part -> its content, or why it has none."""
    return {one.name: one.fault or one.content for one in local_files(site, site / ".appliance")}


WHOLE = {
    "site/group_vars/all/site.yml": b"group_vars/all/site.yml",
    "state/journal/1.json": b".appliance/journal/1.json",
}


def test_the_site_and_the_journal_are_given(site: Path) -> None:
    (site / "rack-20260301T020000Z.backup").write_text("older")
    os.mkfifo(site / "pipe")
    assert found(site) == WHOLE


def test_a_link_that_leads_out_is_named_and_not_followed(site: Path, tmp_path: Path) -> None:
    (tmp_path / "id_ed25519").write_text("CANARY-KEY")
    (tmp_path / "tls").mkdir()
    (site / "key").symlink_to(tmp_path / "id_ed25519")
    (site / "tls").symlink_to(tmp_path / "tls")
    (site / "same.yml").symlink_to("group_vars/all/site.yml")
    (site / "loop").symlink_to("loop")
    given = found(site)
    assert given.pop("site/same.yml") == WHOLE["site/group_vars/all/site.yml"]
    assert given.pop("site/key") == f"a link that leads out of the folder, {FOLLOWED}"
    assert given.pop("site/tls") == f"a link to a folder, {FOLLOWED}"
    assert isinstance(given.pop("site/loop"), str)
    assert given == WHOLE


def test_a_folder_that_cannot_be_read_is_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("/secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    (site / "secret").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    assert found(site) == {**WHOLE, "site/secret": "Permission denied"}


def test_the_key_that_opens_backups_is_in_none(site: Path) -> None:
    (site / "backup-key.txt").write_text(f"# public key\n{new_identity()[0]}\n")
    given = found(site)
    assert given.pop("site/backup-key.txt") == (
        "it is a key that opens backups: keep it off this machine"
    )
    assert given == WHOLE


def test_a_folder_with_more_than_any_site_ends_with_a_word(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MOST_SITE_BYTES", 10)
    assert found(site)["site/group_vars/all/site.yml"] == "the folder holds more than any site"
