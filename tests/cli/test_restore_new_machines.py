"""``appliance cluster restore --new-machines``: what is typed, printed and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.adapters.backup.key_file import write_key
from appliance.cli.exits import run
from tests.unit.backup import samples
from tests.unit.restore.test_site_from_backup import SITE, made

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)


def words(folder: Path, *more: str) -> list[str]:
    file, key = folder / f"{samples.NAME}.backup", folder / "key.txt"
    site = folder / "new" / "rack7"
    what = ["cluster", "restore", str(file), "--identity", str(key), "--new-machines"]
    return [*what, "--site", str(site), *more]


def test_where_there_is_no_site_it_is_written_and_the_next_command_told(
    tmp_path: Path, capsys: Capture
) -> None:
    backup = made(tmp_path)
    assert run(words(tmp_path)) == 0
    said = capsys.readouterr()
    told = said.out + said.err
    assert f"wrote the site rack7, {len(SITE)} files" in told
    assert f"sha256 of the backup: {backup.sha256}" in told
    assert "nothing trusts them" in told
    assert "the password of the vault is not in the backup" in told
    steps = [line for line in said.out.splitlines() if line.startswith("next")]
    assert [line.split(":")[0] for line in steps] == [
        "next, 1",
        "next, 2",
        "next, 3, once the new machines answer",
    ]
    assert "vault-password" in steps[0]
    assert "appliance site check --site" in steps[1]
    assert "--new-machines --accept-host-keys --bundle DIR --site" in steps[2]
    assert (tmp_path / "new/rack7/hosts.yml").exists()


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    made(tmp_path)
    assert run(words(tmp_path, "--dry-run", "--output", "json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["written"], len(told["files"])) == (False, len(SITE))
    assert not (tmp_path / "new").exists()


def test_what_is_not_written_is_named(tmp_path: Path, capsys: Capture) -> None:
    strange = {f"site/plugins/p{number}.py": b"import os" for number in range(12)}
    made(tmp_path, {**SITE, **strange})
    assert run(words(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "not written: site/plugins/p0.py: no site has such a file" in said
    assert "not written: 2 more" in said
    assert not (tmp_path / "new/rack7/plugins").exists()


def test_a_backup_without_a_site_is_refused(tmp_path: Path, capsys: Capture) -> None:
    made(tmp_path, {"site/hosts.yml": b"all: {}\n"})
    assert run(words(tmp_path)) == 3
    said = capsys.readouterr().err
    assert "does not hold the whole site: group_vars/all/site.yml" in said
    assert "hint: use another backup" in said
    assert "backup list" not in said, "there is no site yet whose backups could be listed"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("fault", "hint"), [("damaged", "another backup"), ("key", "--identity")])
def test_where_there_is_no_site_no_hint_lists_its_backups(
    tmp_path: Path, capsys: Capture, fault: str, hint: str
) -> None:
    made(tmp_path)
    if fault == "key":
        (tmp_path / "key.txt").unlink()
        write_key(tmp_path / "key.txt")
    else:
        file = tmp_path / f"{samples.NAME}.backup"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert run(words(tmp_path)) == 5
    said = capsys.readouterr().err
    assert hint in said
    assert "backup list" not in said
    assert not (tmp_path / "new").exists()


def test_nor_does_that_of_a_file_with_another_name(tmp_path: Path, capsys: Capture) -> None:
    made(tmp_path)
    (tmp_path / f"{samples.NAME}.backup").rename(tmp_path / "notes.backup")
    typed = [word.replace(samples.NAME, "notes") for word in words(tmp_path)]
    assert run(typed) == 3
    said = capsys.readouterr().err
    assert "hint: use another backup file of this site" in said
    assert "backup list" not in said


@pytest.mark.parametrize(
    "more", [("--without", "cp1"), ("--survivor", "cp1")], ids=["without", "survivor"]
)
def test_options_of_other_cases_do_not_go_with_it(tmp_path: Path, more: tuple[str, ...]) -> None:
    made(tmp_path)
    assert run(words(tmp_path, *more)) == 2


def test_its_options_do_not_go_with_other_cases(tmp_path: Path) -> None:
    made(tmp_path)
    typed = [word for word in words(tmp_path, "--accept-host-keys") if word != "--new-machines"]
    assert run(typed) == 2
