"""etcd is restored on a node whatever kills the acts, and nothing that was there is lost."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

act = load("etcd_restoration_act", role="etcd_restore")
acts = importlib.import_module("ansible.module_utils.etcd_restoration")
answers = importlib.import_module("ansible.module_utils.control_plane_answers")
programs = importlib.import_module("ansible.module_utils.etcd_image_programs")
files = importlib.import_module("ansible.module_utils.restored_files")

programs_of_acts = acts.appliance_programs

KEY = "rack7-20260301T020000Z.20260302T000000Z"
SNAPSHOT, OLD = b"what the backup has", b"what the node had"
MEMBER = {"name": "cp1", "peer": "https://198.51.100.11:2380", "token": KEY}
MEMBER["cluster"] = f"cp1={MEMBER['peer']}"
SHA = hashlib.sha256(SNAPSHOT).hexdigest()
RESTORER = '#!/bin/sh\nmkdir -p "$7/member" && cp "$3" "$7/member/db"\n'
CHANGING = ("rename", "replace", "mkdir", "rmdir", "unlink")


class Killed(BaseException):
    """The process is gone at this call."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    manifests = tmp_path / "etc/kubernetes/manifests"
    manifests.mkdir(parents=True)
    for name in acts.PODS:
        (manifests / f"{name}.yaml").write_text(
            f"    - {name}\n    - --of={name}\n    image: x:1\n"
        )
    (tmp_path / "var/lib/etcd/member").mkdir(parents=True)
    (tmp_path / "var/lib/etcd/member/db").write_bytes(OLD)
    folder = tmp_path / acts.RESTORES / KEY
    folder.mkdir(parents=True)
    (folder / "snapshot.db").write_bytes(SNAPSHOT)
    restorer = tmp_path / "restorer"
    restorer.write_text(RESTORER)
    restorer.chmod(0o700)
    monkeypatch.setattr(programs, "extract", lambda *_: {"etcd": "", "restorer": restorer})
    monkeypatch.setattr(answers, "etcd_is_away", lambda: "")
    monkeypatch.setattr(answers, "api_is_away", lambda: "")
    monkeypatch.setattr(acts, "EXTRA_BYTES", 0)
    monkeypatch.setattr(acts.Restoration, "_systemctl", lambda *_: None)
    monkeypatch.setattr(acts.Restoration, "ending", nullcontext)
    monkeypatch.setattr(acts, "PROC", tmp_path / "proc")
    return tmp_path


def test_the_api_server_is_followed_from_before_its_manifest_goes_until_all_have_stopped(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, seen = root / acts.MANIFESTS / "kube-apiserver.yaml", list[tuple[str, bool]]()

    @contextmanager
    def following() -> Iterator[None]:
        seen.append(("begins", manifest.exists()))
        yield
        seen.append(("ends", manifest.exists()))

    left = ["kube-apiserver", "kube-apiserver", ""]

    def running(_self: Any) -> str:
        seen.append(("waits", manifest.exists()))
        return left.pop(0)

    monkeypatch.setattr(acts.Restoration, "ending", staticmethod(following))
    monkeypatch.setattr(acts.Restoration, "_all_stopped", running)
    acts.Restoration(KEY, root=root, seconds=5).stop()
    assert seen == [("begins", True), *[("waits", False)] * 3, ("ends", False)]


def restored_at_once(argv: list[str], *_: Any, **__: Any) -> tuple[int, bytes, bytes]:
    """What the restorer does, without a process."""
    data = Path(argv[argv.index("--data-dir") + 1]) / "member"
    data.mkdir(parents=True)
    (data / "db").write_bytes(Path(argv[3]).read_bytes())
    return 0, b"", b""


def all_acts(root: Path) -> None:
    one = acts.Restoration(KEY, root=root, seconds=5)
    one.stop()
    one.place(MEMBER, SHA)
    one.start()
    one.end()


def everything(root: Path) -> dict[str, bytes]:
    """Every file, without our own folder."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and acts.RESTORES not in str(path) and path.name != "restorer"
    }


def as_restored(before: dict[str, bytes]) -> dict[str, bytes]:
    aside = f"var/lib/etcd.before-{KEY}/member/db"
    return {**before, "var/lib/etcd/member/db": SNAPSHOT, aside: OLD}


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> Iterator[list[int]]:
    """The process ends at the n-th call that changes a folder, before or after it."""
    count = [0]

    def broken(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            count[0] += 1
            if count[0] == number and not after:
                raise Killed
            try:
                return real(*args, **more)
            finally:
                if count[0] == number:
                    raise Killed

        return call

    with monkeypatch.context() as patched:
        for name in CHANGING:
            patched.setattr(os, name, broken(getattr(os, name)))
        yield count


def test_all_acts_put_the_snapshot_in_place_and_keep_the_old_data(root: Path) -> None:
    before = everything(root)
    all_acts(root)
    assert everything(root) == as_restored(before)
    left = {path.name for path in (root / acts.RESTORES / KEY).iterdir()}
    assert left == {"mark.json"}


@pytest.mark.parametrize("after", [False, True])
def test_the_same_acts_end_a_restore_that_was_killed_at_any_change(
    root: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(programs_of_acts, "output", restored_at_once)
    before, number, kills = everything(root), 0, 0
    # Every run gets one change further than the one before it, or ends.
    while True:
        number += 1
        with killed_at(monkeypatch, number, after=after):
            try:
                all_acts(root)
                break
            except Killed:
                kills += 1
        assert number < 200
        found = everything(root)
        assert OLD in found.values()
    assert kills > 10
    assert everything(root) == as_restored(before)


def test_a_member_without_data_leaves_nothing_aside(root: Path) -> None:
    (root / "var/lib/etcd/member/db").unlink()
    (root / "var/lib/etcd/member").rmdir()
    one = acts.Restoration(KEY, root=root, seconds=5)
    one.stop()
    assert one.place(MEMBER, SHA) == ""
    assert (root / "var/lib/etcd/member/db").read_bytes() == SNAPSHOT


def test_another_snapshot_is_refused_before_anything_is_moved(root: Path) -> None:
    one = acts.Restoration(KEY, root=root, seconds=5)
    one.stop()
    with pytest.raises(acts.RestorationError, match="expected 0000"):
        one.place(MEMBER, "0" * 64)
    assert (root / "var/lib/etcd/member/db").read_bytes() == OLD


def test_a_snapshot_that_does_not_restore_moves_nothing(root: Path) -> None:
    (root / "restorer").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    one = acts.Restoration(KEY, root=root, seconds=5)
    one.stop()
    with pytest.raises(acts.RestorationError, match="broken"):
        one.place(MEMBER, SHA)
    assert (root / "var/lib/etcd/member/db").read_bytes() == OLD


def test_a_full_disk_is_named_before_anything_is_moved(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "EXTRA_BYTES", 1 << 60)
    one = acts.Restoration(KEY, root=root, seconds=5)
    one.stop()
    with pytest.raises(acts.RestorationError, match="MB free"):
        one.place(MEMBER, SHA)
    assert (root / "var/lib/etcd/member/db").read_bytes() == OLD


def test_data_of_an_etcd_that_runs_is_not_touched(root: Path) -> None:
    process = root / "proc/17"
    process.mkdir(parents=True)
    (process / "cmdline").write_bytes(b"etcd\0--of=etcd\0")
    one = acts.Restoration(KEY, root=root, seconds=0)
    with pytest.raises(acts.RestorationError, match="etcd: still runs"):
        one.stop()
    with pytest.raises(acts.RestorationError, match="its data is not touched"):
        one.place(MEMBER, SHA)


def test_an_etcd_that_was_started_before_its_manifest_was_edited_runs(root: Path) -> None:
    peer = "--initial-advertise-peer-urls=https://198.51.100.11:2380"
    manifest = root / "etc/kubernetes/manifests/etcd.yaml"
    manifest.write_text(f"    - etcd\n    - {peer}\n    - --force-new-cluster\n    image: x:1\n")
    for number, flags in ((17, peer), (18, peer.replace("11:", "12:"))):
        process = root / f"proc/{number}"
        process.mkdir(parents=True)
        (process / "cmdline").write_bytes(f"etcd\0{flags}\0".encode())
    one = acts.Restoration(KEY, root=root, seconds=0)
    assert one._processes("etcd") == [17]
    with pytest.raises(acts.RestorationError, match="etcd: still runs"):
        one.stop()


def test_a_later_restore_takes_over_what_an_earlier_one_stopped(root: Path) -> None:
    before = everything(root)
    earlier = acts.Restoration("earlier", root=root, seconds=5)
    earlier.stop()
    (earlier.folder / "snapshot.db").write_bytes(SNAPSHOT)
    all_acts(root)
    assert everything(root) == as_restored(before)
    assert {path.name for path in earlier.folder.iterdir()} == {"mark.json"}


def test_what_a_salvage_that_failed_left_does_not_hold_up_a_later_restore(root: Path) -> None:
    """The survivor's data was broken, and the run was killed here and there: a backup is next."""
    earlier = acts.Restoration("survivor-cp1.20260301T000000Z", root=root, seconds=5)
    earlier.stop()
    (earlier.folder / "copy/member").mkdir(parents=True)
    (earlier.folder / "copy/member/db").write_bytes(OLD)
    (earlier.folder / "programs").mkdir()
    half = ("copy.log", "programs/etcd", "programs/etcdutl.new", ".mark.json.new")
    for name in (*half, "snapshot.db.part", "manifests/.etcd.yaml.new"):
        (earlier.folder / name).write_bytes(b"half")
    all_acts(root)
    assert {path.name for path in earlier.folder.iterdir()} == {"mark.json"}


def test_a_manifest_that_changed_meanwhile_is_named_and_kept(root: Path) -> None:
    one = acts.Restoration(KEY, root=root, seconds=5)
    one.stop()
    one.place(MEMBER, SHA)
    other = root / "etc/kubernetes/manifests/etcd.yaml"
    other.write_text("another")
    with pytest.raises(files.TwoFilesError, match="differ"):
        one.start()
    assert other.read_text() == "another"


def test_a_folder_with_something_else_in_it_is_not_emptied(root: Path) -> None:
    one = acts.Restoration(KEY, root=root, seconds=5)
    one.stop()
    one.place(MEMBER, SHA)
    one.start()
    (one.folder / "letter.txt").write_text("mine")
    with pytest.raises(acts.RestorationError, match=r"letter\.txt"):
        one.end()
    assert (one.folder / "snapshot.db").exists()


@pytest.mark.parametrize("key", ["", "../x", "a/b", "a b", ".x", "x" * 200])
def test_a_word_that_is_no_name_of_a_folder_is_refused(key: str) -> None:
    with pytest.raises(acts.RestorationError):
        acts.Restoration(key)
