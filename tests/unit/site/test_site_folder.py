"""A site is written all or none, whatever the disk says and whenever the writer dies."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from appliance.adapters.site.folder import UNFINISHED, SiteDirectory
from appliance.errors import Refused
from tests.trees import snapshot

FILES = {
    "hosts.yml": "all: {}\n",
    "group_vars/all/site.yml": "domain: a.test\n",
    "known_hosts": "",
    "group_vars/all/vault.yml": "$ANSIBLE_VAULT\n",
}


def test_the_files_are_committable_and_the_state_is_private(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        SiteDirectory(tmp_path / "rack7").write(FILES)
    finally:
        os.umask(before)
    assert {path for path, (_, content) in snapshot(tmp_path / "rack7").items() if content} == {
        name for name, text in FILES.items() if text
    }
    assert (tmp_path / "rack7" / ".appliance").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "rack7" / "hosts.yml").stat().st_mode & 0o777 == 0o644
    assert list((tmp_path / "rack7" / ".appliance").iterdir()) == []


@pytest.mark.parametrize("writes", range(8))
def test_a_full_disk_leaves_none_and_the_second_run_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    folder, calls, synced = SiteDirectory(tmp_path / "rack7"), [0], os.fsync

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] > writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(handle)

    (tmp_path / "rack7").mkdir()
    (tmp_path / "rack7" / "README.md").write_text("theirs")
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)
        with pytest.raises(Refused, match="No space left on device"):
            folder.write(FILES)
    assert folder.existing(list(FILES)) == ()
    assert len(folder.write(FILES)) == len(FILES)
    assert (tmp_path / "rack7" / "README.md").read_text() == "theirs"


@pytest.mark.parametrize("moved", range(5))
def test_one_that_died_while_files_got_their_places_is_gone_on_with(
    tmp_path: Path, moved: int
) -> None:
    site = tmp_path / "rack7"
    SiteDirectory(site).write(dict(list(FILES.items())[:moved]))
    (site / ".appliance" / UNFINISHED).write_text("".join(f"{name}\n" for name in FILES))
    folder = SiteDirectory(site)
    assert folder.existing(list(FILES)) == ()
    folder.write(FILES)
    assert {name: (site / name).read_text() for name in FILES} == FILES
    assert list((site / ".appliance").iterdir()) == []
    assert set(folder.existing(list(FILES))) == set(FILES)


def test_a_file_that_appeared_meanwhile_stays_and_nothing_of_ours_does(tmp_path: Path) -> None:
    site = tmp_path / "rack7"
    site.mkdir()
    (site / "known_hosts").symlink_to(tmp_path / "elsewhere")
    folder = SiteDirectory(site)
    assert folder.existing(list(FILES)) == ("known_hosts",)
    with pytest.raises(Refused, match="File exists"):
        folder.write(FILES)
    assert [path.name for path in site.iterdir() if path.is_symlink() or path.is_file()] == [
        "known_hosts"
    ]
    assert not (tmp_path / "elsewhere").exists()
