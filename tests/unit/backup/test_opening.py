"""Who opens a backup, with what, and that it is the file that was looked at before."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.adapters.backup.age import read_identities
from appliance.adapters.backup.reader import check_parts
from appliance.errors import NotHealthy
from tests.contract.tree import ROOT
from tests.unit.backup.samples import CONTENT, NAME, key, write

FILE = f"{NAME}.backup"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def test_the_page_opens_one_with_nothing_but_the_file_and_its_key(
    tmp_path: Path, place: Path
) -> None:
    path, recipient = key(tmp_path)
    write(place, recipient)
    page = (ROOT / "appliance/docs/operations/recover-the-cluster.md").read_text()
    (block,) = re.findall(r"```\n(mkdir -m 700 taken\npython3 .*?)```", page, re.DOTALL)
    names = {
        "python3": sys.executable,
        "rack7.key": str(path),
        "rack7-20260301T020000Z.backup": str(place / FILE),
    }
    for name, own in names.items():
        block = block.replace(name, own)
    subprocess.run(["sh", "-ec", block], check=True, cwd=tmp_path)
    taken = tmp_path / "taken"
    assert {name: (taken / name).read_bytes() for name in CONTENT} == CONTENT
    assert (taken / "manifest.json").is_file()


def test_a_key_that_an_editor_of_windows_saved_opens_it(tmp_path: Path) -> None:
    path, _ = key(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().partition(b"\n")[2].strip() + b"\r\n")
    assert len(read_identities(path)) == 1


def test_one_that_is_exchanged_between_two_looks_is_refused(tmp_path: Path, place: Path) -> None:
    """A share of others gives the file that the journal knows, and then another whole one."""
    path, recipient = key(tmp_path)
    known = write(place, recipient).sidecar
    assert known is not None
    (tmp_path / "other").mkdir()
    write(tmp_path / "other", recipient)
    with (
        (tmp_path / "other" / FILE).open("rb") as stream,
        pytest.raises(NotHealthy, match="it was changed while it was read"),
    ):
        check_parts(stream, read_identities(path), known.sha256)
