"""A control host that lost everything gets the site's directory out of a backup, or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.opened import BackupFile
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.writer import new_backup
from appliance.adapters.local import site_copy
from appliance.adapters.local.site_copy import is_vacant, write_site
from appliance.errors import Refused
from appliance.model.backup.record import About, Manifest, Part
from appliance.model.backup.site_parts import MOST_FILE_BYTES, site_parts
from tests.unit.backup import samples
from tests.unit.restore.rack import ABOUT

VAULT = b"$ANSIBLE_VAULT;1.1;AES256\n"
SITE = {
    "site/hosts.yml": b"all: {}\n",
    "site/group_vars/all/site.yml": b"site_name: rack7\n",
    "site/group_vars/all/vault.yml": VAULT,
    "site/group_vars/appliance_site_ca/vault.yml": VAULT,
    "site/host_vars/cp1.yml": b"address: 198.18.7.11/24\n",
    "site/known_hosts": b"198.18.7.11 ssh-ed25519 AAAA\n",
    "site/README.md": b"notes\n",
    "state/journal/0195-1.json": b"{}",
    "state/passports/cp1.json": b"{}",
}
STRANGE = (
    "site/ansible.cfg",
    "site/filter_plugins/run.py",
    "site/host_vars/deep/cp1.yml",
    "site/group_vars/all/more.yml",
    "site/group_vars/notes.md",
    "site/.vault-password",
    "site/inventory.ini",
)


def made(folder: Path, content: dict[str, bytes] = SITE) -> BackupFile:
    """A backup of these parts."""
    key, recipient = samples.key(folder)
    place = FolderPlace(folder)
    with new_backup(place, samples.NAME, [recipient], samples.MOMENT) as writer:
        for name, one in content.items():
            writer.put(name, one, "")
        writer.finish(Manifest(samples.about(), "api.appliance.example:6443", ()))
    return BackupFile(folder / f"{samples.NAME}.backup", key)


def manifest(*parts: Part, about: About = ABOUT) -> Manifest:
    return Manifest(about, "api.rack.test:6443", parts)


def test_the_site_is_written_whole_and_private(tmp_path: Path) -> None:
    backup = made(tmp_path)
    target = tmp_path / "sites" / "rack7"
    files = site_parts(backup.manifest).files
    write_site(backup, files, target)
    assert (target / "group_vars/all/vault.yml").read_bytes() == VAULT
    assert (target / ".appliance/journal/0195-1.json").exists()
    assert (target / ".appliance/passports/cp1.json").exists()
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert stat.S_IMODE((target / "hosts.yml").stat().st_mode) == 0o600
    assert [one.name for one in target.parent.iterdir()] == ["rack7"]


def test_keys_of_lost_machines_are_kept_and_trusted_by_nothing(tmp_path: Path) -> None:
    backup = made(tmp_path)
    write_site(backup, site_parts(backup.manifest).files, tmp_path / "rack7")
    assert (tmp_path / "rack7/known_hosts").read_bytes() == b""
    assert (tmp_path / "rack7/known_hosts.old").read_bytes() == SITE["site/known_hosts"]


@pytest.mark.parametrize("name", STRANGE)
def test_what_no_site_has_is_named_and_not_written(name: str) -> None:
    parts = [Part(one, "0" * 64, 1) for one in (*SITE, name)]
    found = site_parts(manifest(*parts))
    assert found.left_out == (name,)
    assert len(found.files) == len(SITE)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("state/journal/..", None),
        ("state/journal/x/y.json", None),
        ("state/other/x.json", None),
        ("state/passports/w1.json", ".appliance/passports/w1.json"),
        ("site/runai-rack7.yaml", "runai-rack7.yaml"),
        ("site/tls/backend.crt", "tls/backend.crt"),
    ],
)
def test_where_a_part_goes(name: str, path: str | None) -> None:
    assert site_parts(manifest(Part(name, "0" * 64, 1))).files.get(name) == path


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ((), "missing"),
        ((Part("site/hosts.yml", "0" * 64, MOST_FILE_BYTES + 1),), "too_large"),
        (tuple(Part(f"site/host_vars/n{n}.yml", "0" * 64, 1) for n in range(20_001)), "too_large"),
    ],
)
def test_a_backup_without_a_site_or_with_too_much_is_refused(
    parts: tuple[Part, ...], fault: str
) -> None:
    assert getattr(site_parts(manifest(*parts)), fault)


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_nothing_is_written_over_anything(tmp_path: Path, what: str) -> None:
    backup, target = made(tmp_path), tmp_path / "rack7"
    if what == "file":
        target.write_text("mine")
    elif what == "folder":
        target.mkdir()
        (target / "mine").write_text("mine")
    else:
        (tmp_path / "elsewhere").mkdir()
        target.symlink_to(tmp_path / "elsewhere")
    assert not is_vacant(target)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Refused, match="not empty"):
        write_site(backup, site_parts(backup.manifest).files, target)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    backup, target = made(tmp_path), tmp_path / "rack7"
    target.mkdir()
    write_site(backup, site_parts(backup.manifest).files, target)
    assert (target / "hosts.yml").exists()


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("at", range(len(SITE)))
def test_the_same_command_begins_again_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """A kill removes nothing: what it leaves is the folder beside, with our mark."""
    backup, target = made(tmp_path), tmp_path / "rack7"
    left = [at]

    def fsync(_handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise _Killed

    real: Any = site_copy._remove
    calls: list[Path] = []

    def remove(outer: Path, inner: Path) -> None:
        calls.append(inner)
        if len(calls) == 1:
            real(outer, inner)
        else:
            raise _Killed

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(site_copy, "_remove", remove)
    with pytest.raises(_Killed):
        write_site(backup, site_parts(backup.manifest).files, target)
    assert not target.exists()
    monkeypatch.undo()
    write_site(backup, site_parts(backup.manifest).files, target)
    assert (target / "hosts.yml").exists()
    assert not (tmp_path / ".rack7.from-backup").exists()


def test_a_folder_of_somebody_else_beside_it_is_not_emptied(tmp_path: Path) -> None:
    backup = made(tmp_path)
    beside = tmp_path / ".rack7.from-backup"
    (beside / "rack7").mkdir(parents=True)
    (beside / "rack7" / "mine").write_text("mine")
    with pytest.raises(Refused, match="none of ours"):
        write_site(backup, site_parts(backup.manifest).files, tmp_path / "rack7")
    assert (beside / "rack7" / "mine").read_text() == "mine"
