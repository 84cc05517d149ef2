"""The kubelet that ran before an upgrade: kept once, and put back whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.modules.loading import load

before = load("kubelet_before", role="kubernetes_upgrade")
Run = Callable[[list[str]], tuple[int, str, str]]
NEW = "1.23.17"
CONFIG = "var/lib/kubelet/config.yaml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "root"
    for name in before.FILES:
        path = found / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"old {name}")
    (found / before.PROGRAM).chmod(0o755)
    return found


def says(version: str) -> Run:
    return lambda _argv: (0, f"Kubernetes v{version}\n", "")


def replaced(root: Path) -> None:
    for name in before.FILES:
        (root / name).write_text(f"new {name}")


def contents(root: Path) -> set[str]:
    return {(root / name).read_text().partition(" ")[0] for name in before.FILES}


def test_what_ran_before_is_put_back_with_its_modes(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "kept"
    assert before.keep(folder, root, NEW, says("1.23.5"), True) == ("v1.23.5", list(before.FILES))
    replaced(root)
    was, files = before.put_back(folder, root, NEW, says(NEW), True)
    assert (was, files) == ("v1.23.5", list(before.FILES))
    assert contents(root) == {"old"}
    assert (root / before.PROGRAM).stat().st_mode & 0o777 == 0o755
    assert folder.stat().st_mode & 0o777 == 0o700
    assert before.put_back(folder, root, NEW, says("1.23.5"), True) == ("v1.23.5", [])


def test_a_second_run_keeps_the_first_and_not_what_was_replaced_since(
    tmp_path: Path, root: Path
) -> None:
    folder = tmp_path / "kept"
    before.keep(folder, root, NEW, says("1.23.5"), True)
    (root / CONFIG).write_text("new: half-way")
    assert before.keep(folder, root, NEW, says("1.23.5"), True) == ("v1.23.5", [])
    assert before.put_back(folder, root, NEW, says("1.23.5"), True)[1] == [CONFIG]
    assert contents(root) == {"old"}


def test_a_kubelet_of_the_release_is_not_kept_as_the_one_before(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "kept"
    assert before.keep(folder, root, NEW, says(NEW), True) == ("", [])
    assert not folder.exists()
    with pytest.raises(before.BeforeError, match="keeps none of before"):
        before.put_back(folder, root, NEW, says(NEW), True)


def test_where_nothing_was_replaced_yet_there_is_nothing_to_put_back(
    tmp_path: Path, root: Path
) -> None:
    assert before.put_back(tmp_path / "kept", root, NEW, says("1.23.5"), True) == ("v1.23.5", [])


def test_a_copy_that_was_killed_counts_for_nothing(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "kept"
    before.keep(folder, root, NEW, says("1.23.5"), True)
    (folder / before.RECORD).unlink()
    (folder / before.PROGRAM).write_text("cut o")
    assert before.keep(folder, root, NEW, says("1.23.5"), True)[1] == list(before.FILES)
    assert (folder / before.PROGRAM).read_text().startswith("old")


@pytest.mark.parametrize("damage", [before.PROGRAM, CONFIG])
def test_a_kept_file_that_was_changed_is_not_put_back(
    tmp_path: Path, root: Path, damage: str
) -> None:
    folder = tmp_path / "kept"
    before.keep(folder, root, NEW, says("1.23.5"), True)
    (folder / damage).write_text("rotten")
    replaced(root)
    with pytest.raises(before.BeforeError, match="is not what was kept"):
        before.put_back(folder, root, NEW, says(NEW), True)
    assert contents(root) == {"new"}


RECORDS = ["", "[]", "{}", json.dumps({"was": "v1", "files": 7}), '{"files": {}}']


@pytest.mark.parametrize("text", RECORDS)
def test_a_record_of_another_form_counts_for_nothing(tmp_path: Path, root: Path, text: str) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / before.RECORD).write_text(text)
    assert before.keep(folder, root, NEW, says("1.23.5"), True)[1] == list(before.FILES)


def test_only_the_kubelets_own_files_are_written(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "kept"
    before.keep(folder, root, NEW, says("1.23.5"), True)
    known = json.loads((folder / before.RECORD).read_text())
    known["files"]["etc/shadow"] = "ab" * 32
    (folder / before.RECORD).write_text(json.dumps(known))
    assert before.put_back(folder, root, NEW, says("1.23.5"), True) == ("v1.23.5", [])
    assert not (root / "etc/shadow").exists()


def test_a_program_that_does_not_answer_is_named(tmp_path: Path, root: Path) -> None:
    with pytest.raises(before.BeforeError, match="does not say its version"):
        before.keep(tmp_path / "kept", root, NEW, lambda _argv: (1, "", "exec format error"), True)


def test_check_mode_copies_nothing(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "kept"
    assert before.keep(folder, root, NEW, says("1.23.5"), False) == ("v1.23.5", list(before.FILES))
    assert not folder.exists()


def test_each_upgrade_has_a_folder_of_its_own() -> None:
    want = {"folder": "/kept", "version": NEW, "upgrade": "20260101T000000"}
    first = before.folder_of(want)
    assert first == Path("/kept/v1.23.17-20260101T000000")
    assert before.folder_of({**want, "upgrade": "20260201T000000"}) != first


@pytest.mark.parametrize("change", [{"upgrade": ""}, {"upgrade": "../x"}, {"version": "1.23/x"}])
def test_a_word_that_is_no_name_of_a_folder_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(before.BeforeError, match="is no"):
        before.folder_of({"folder": "/kept", "version": NEW, "upgrade": "a", **change})


def test_what_was_changed_after_a_way_back_is_kept_by_the_next_run(
    tmp_path: Path, root: Path
) -> None:
    folder = tmp_path / "kept"
    before.keep(folder, root, NEW, says("1.23.5"), True)
    replaced(root)
    before.put_back(folder, root, NEW, says(NEW), True)
    (root / CONFIG).write_text("edited by hand")
    assert before.put_back(folder, root, NEW, says("1.23.5"), True) == ("v1.23.5", [])
    assert (root / CONFIG).read_text() == "edited by hand"
    assert before.keep(folder, root, NEW, says("1.23.5"), True) == ("v1.23.5", list(before.FILES))
    replaced(root)
    before.put_back(folder, root, NEW, says(NEW), True)
    assert (root / CONFIG).read_text() == "edited by hand"


def test_a_way_back_that_was_killed_half_way_ends_by_the_same_command(
    tmp_path: Path, root: Path
) -> None:
    folder = tmp_path / "kept"
    before.keep(folder, root, NEW, says("1.23.5"), True)
    replaced(root)
    before.copy(folder / before.PROGRAM, root / before.PROGRAM)
    assert before.put_back(folder, root, NEW, says("1.23.5"), True)[1] == list(before.FILES)[1:]
    assert contents(root) == {"old"}


def kept(parent: Path, name: str, root: Path, version: str) -> Path:
    folder = parent / name
    assert before.keep(folder, root, version, says("1.23.5"), True)[0] == "v1.23.5"
    return folder


OVER = {
    "another upgrade to what runs": ("v1.23.17-20250101T000000", "1.23.17", True),
    "another upgrade to less": ("v1.23.17-20250101T000000", "1.24.17", True),
    "the release before of the same upgrade": ("v1.23.17-now", "1.23.17", True),
    "another upgrade that never got here": ("v1.23.17-20250101T000000", "1.23.5", False),
    "a later release": ("v1.24.17-20250101T000000", "1.23.17", False),
}


@pytest.mark.parametrize(("name", "runs", "goes"), OVER.values(), ids=OVER)
def test_what_an_upgrade_kept_goes_once_the_node_has_what_it_brought(
    tmp_path: Path, root: Path, name: str, runs: str, goes: bool
) -> None:
    old = kept(tmp_path / "kept", name, root, "1.23.17" if "23.17" in name else "1.24.17")
    ours = kept(tmp_path / "kept", "v1.24.17-now", root, "1.24.17")
    assert before.prune(ours, root, says(runs), False) == ([name] if goes else [])
    assert old.exists()
    assert before.prune(ours, root, says(runs), True) == ([name] if goes else [])
    assert old.exists() is not goes
    assert before.record(ours) is not None
    assert before.prune(ours, root, says(runs), True) == []


def test_what_is_not_what_an_upgrade_kept_stays(tmp_path: Path, root: Path) -> None:
    parent = tmp_path / "kept"
    ours = kept(parent, "v1.24.17-now", root, "1.24.17")
    (parent / "notes").mkdir()
    (parent / "v1.23.17-torn").mkdir()
    other = kept(tmp_path / "elsewhere", "v1.23.17-a", root, "1.23.17")
    (parent / "v1.23.17-link").symlink_to(other)
    (parent / "v1.23.17-file").write_text("x")
    assert before.prune(ours, root, says("1.23.17"), True) == []
    assert before.record(other) is not None
    names = ("notes", "v1.23.17-torn", "v1.23.17-link", "v1.23.17-file")
    assert all((parent / name).exists() for name in names)


def test_a_file_of_somebody_else_in_a_kept_folder_stays(tmp_path: Path, root: Path) -> None:
    ours = kept(tmp_path / "kept", "v1.24.17-now", root, "1.24.17")
    old = kept(tmp_path / "kept", "v1.23.17-a", root, "1.23.17")
    (old / "etc/mine").write_text("mine")
    assert before.prune(ours, root, says("1.23.17"), True) == [old.name]
    assert [path.name for path in old.rglob("*") if path.is_file()] == ["mine"]


def test_a_folder_that_leads_elsewhere_is_not_followed(tmp_path: Path, root: Path) -> None:
    ours = kept(tmp_path / "kept", "v1.24.17-now", root, "1.24.17")
    old = kept(tmp_path / "kept", "v1.23.17-a", root, "1.23.17")
    (old / "usr").rename(tmp_path / "usr")
    (old / "usr").symlink_to(tmp_path / "usr")
    before.prune(ours, root, says("1.23.17"), True)
    assert (tmp_path / "usr/local/bin/kubelet").is_file()


def test_a_removal_that_was_killed_is_finished_by_the_next_run(tmp_path: Path, root: Path) -> None:
    ours = kept(tmp_path / "kept", "v1.24.17-now", root, "1.24.17")
    old = kept(tmp_path / "kept", "v1.23.17-a", root, "1.23.17")
    (old / before.PROGRAM).unlink()
    assert before.prune(ours, root, says("1.23.17"), True) == [old.name]
    assert not old.exists()


def test_a_kubelet_that_does_not_answer_proves_nothing(tmp_path: Path, root: Path) -> None:
    ours = kept(tmp_path / "kept", "v1.24.17-now", root, "1.24.17")
    old = kept(tmp_path / "kept", "v1.23.17-a", root, "1.23.17")
    assert before.prune(ours, root, lambda _argv: (1, "", "exec format error"), True) == []
    assert before.record(old) is not None
