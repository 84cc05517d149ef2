"""State is written whole or not at all, for its owner alone, and never through a link."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance.adapters.local.state_files import make_folder, replace_file, write_once


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_of_the_state_are_private_whoever_makes_them_first(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        replace_file(tmp_path / "site" / ".appliance" / "a" / "b" / "c.json", "{}\n")
    finally:
        os.umask(before)
    state = tmp_path / "site" / ".appliance"
    assert [_mode(state / part) for part in ("", "a", "a/b")] == [0o700] * 3
    assert _mode(state / "a/b/c.json") == 0o600
    assert _mode(tmp_path / "site") == 0o755


def test_a_folder_that_is_a_file_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a")


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_cannot_be_written_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, call: str
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("old\n")

    def fails(*_anything: object) -> None:
        raise fault

    with monkeypatch.context() as broken:
        broken.setattr(os, call, fails)
        if call == "replace":
            broken.setattr(Path, "replace", fails)
        with pytest.raises(type(fault)):
            replace_file(path, "new\n")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_the_disk_has_no_room_for_leaves_the_old_one(tmp_path: Path) -> None:
    """A real limit of the kernel: the write itself fails half-way."""
    path = tmp_path / "known_hosts"
    path.write_text("old\n")
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from appliance.adapters.local.state_files import replace_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "replace_file(Path(sys.argv[1]), 'n' * 5000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, path], capture_output=True, text=True, check=False
    )
    assert "File too large" in done.stderr
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("theirs\n")
    link = tmp_path / "link"
    link.symlink_to(other)
    replace_file(link, "ours\n")
    assert other.read_text() == "theirs\n"
    assert not link.is_symlink()
    assert link.read_text() == "ours\n"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        write_once(dangling, "ours\n")
    assert not (tmp_path / "nowhere").exists()


def test_many_writers_of_one_file_at_once_all_succeed_and_one_text_stays(tmp_path: Path) -> None:
    path = tmp_path / "a" / "document.json"
    texts = [str(number) * 2000 for number in range(10)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: replace_file(path, text), texts * 20))
    assert path.read_text() in texts
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes as another")
def test_under_sudo_a_file_stays_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("old\n")
    os.chown(path, 1234, 1234)
    replace_file(path, "new\n", mode=0o644)
    assert (path.stat().st_uid, path.stat().st_gid, _mode(path)) == (1234, 1234, 0o644)
