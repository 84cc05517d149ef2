"""Several bundles on the services node: a folder each, one is served, shared content is once."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

layout = load("bundle_layout", role="artifact_server")
filling = load("bundle_fill", role="artifact_server")
serving = load("bundle_current", role="artifact_server")
removing = load("bundle_remove", role="artifact_server")
on_disk = importlib.import_module("ansible.module_utils.bundles_on_disk")

OLD = {"bin/tool": b"old", "bin/same": b"same", "images/blobs/sha256/aa": b"blob"}
NEW = {"bin/tool": b"new", "bin/moved": b"same", "images/blobs/sha256/aa": b"blob"}


class Services:
    """The folders of a services node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.current = folder / "bundle"
        self.store = folder / "bundles"
        self.marker = folder / "bundle.verified"

    def write(self, path: Path, files: dict[str, bytes], *, content: bool = True) -> str:
        """Write a bundle or only its manifest; return its digest."""
        entries = []
        for name, data in files.items():
            if content:
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
            entries.append({"path": name, "sha256": digest, "size": len(data)})
        path.mkdir(parents=True, exist_ok=True)
        manifest = json.dumps({"files": entries}).encode()
        (path / "manifest.json").write_bytes(manifest)
        return hashlib.sha256(manifest).hexdigest()

    def digest(self, files: dict[str, bytes]) -> str:
        return self.write(self.folder / "elsewhere", files, content=False)

    def arrange(self, digest: str) -> None:
        self.layout(digest).carry_out()

    def layout(self, digest: str) -> Any:
        return layout.Layout(self.current, self.store, digest, self.marker)

    def proof(self, digest: str) -> Any:
        return on_disk.Verification(self.store / digest, digest, self.marker)

    def prove(self, digest: str) -> list[str]:
        proof = self.proof(digest)
        faults, differing, proven = proof.look()
        proof.settle(differing, proven, not faults)
        return list(faults)

    def fill(self, digest: str) -> tuple[list[str], list[str]]:
        absent, taken = filling.fill(self.proof(digest), self.current, check=False)
        return absent, taken

    def serve(self, digest: str) -> None:
        target = os.path.relpath(self.store / digest, self.folder)
        serving.switch(self.current, target)

    def removal(self, digest: str) -> Any:
        return removing.Removal(self.current, self.store, digest, self.marker)

    def hold(self, files: dict[str, bytes]) -> str:
        """A verified bundle of the store."""
        digest = self.digest(files)
        self.write(self.store / digest, files)
        assert self.prove(digest) == []
        return digest


@pytest.fixture
def node(tmp_path: Path) -> Services:
    return Services(tmp_path)


@pytest.fixture
def earlier(node: Services) -> str:
    """A node that the previous version installed: one folder, a marker and a record."""
    digest = node.write(node.current, OLD)
    proof = on_disk.Verification(node.current, digest, node.marker)
    faults, differing, proven = proof.look()
    assert faults == []
    proof.settle(differing, proven, complete=True)
    on_disk.record_of(node.current).rename(node.folder / "bundle.verified.files")
    assert node.marker.read_text() == digest + "\n"
    return digest


@pytest.mark.parametrize("can_exchange", [True, False])
def test_the_folder_of_the_previous_version_is_taken_over_and_not_read_again(
    node: Services, earlier: str, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:

        def no_exchange(*_: object) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

        monkeypatch.setattr(layout, "exchange", no_exchange)
    node.arrange(earlier)
    assert str(node.current.readlink()) == f"bundles/{earlier}"
    assert (node.current / "bin/tool").read_bytes() == b"old"
    read: list[str] = []
    real = on_disk.sha256

    def counting(path: Path) -> Any:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(on_disk, "sha256", counting)
    assert node.prove(earlier) == []
    assert read == ["manifest.json"]
    assert node.layout(earlier).to_adopt() is None


def test_a_takeover_that_was_killed_before_its_exchange_goes_on(
    node: Services, earlier: str
) -> None:
    node.store.mkdir()
    (node.store / earlier).symlink_to(f"bundles/{earlier}")
    node.arrange(earlier)
    assert (node.current / "bin/tool").read_bytes() == b"old"
    assert node.prove(earlier) == []


def test_a_takeover_that_was_killed_between_its_two_steps_goes_on(
    node: Services, earlier: str
) -> None:
    """Where the file system cannot exchange names: the folder moved, and there is no link yet."""
    node.store.mkdir()
    node.current.rename(node.store / earlier)
    node.arrange(earlier)
    assert node.prove(earlier) == []
    node.serve(earlier)
    assert (node.current / "bin/tool").read_bytes() == b"old"


def test_an_interrupted_first_transfer_of_the_previous_version_is_used(node: Services) -> None:
    (node.current / "bin").mkdir(parents=True)
    (node.current / "bin/tool").write_bytes(b"new")
    digest = node.digest(NEW)
    node.arrange(digest)
    node.write(node.store / digest, NEW, content=False)
    absent, taken = node.fill(digest)
    assert (absent, taken) == (["bin/moved", "images/blobs/sha256/aa"], [])


def test_a_folder_beside_its_own_link_is_not_merged(node: Services, earlier: str) -> None:
    node.write(node.store / earlier, OLD)
    with pytest.raises(ValueError, match="move one of them away: mv "):
        node.arrange(earlier)
    assert (node.current / "bin/tool").read_bytes() == b"old"


def test_a_new_bundle_takes_from_the_earlier_one_and_both_stay_whole(
    node: Services, earlier: str
) -> None:
    digest = node.digest(NEW)
    node.arrange(digest)
    node.write(node.store / digest, NEW, content=False)
    assert node.fill(digest) == (["bin/tool"], ["bin/moved", "images/blobs/sha256/aa"])
    blob = "images/blobs/sha256/aa"
    shared = (node.store / digest / blob).stat()
    assert shared.st_ino == (node.current / blob).stat().st_ino
    assert str(node.current.readlink()) == f"bundles/{earlier}", (
        "the earlier one is served meanwhile"
    )
    assert node.prove(digest) == ["bin/tool is absent"]
    (node.store / digest / "bin/tool").write_bytes(b"new")
    assert node.prove(digest) == []
    node.serve(digest)
    assert (node.current / "bin/tool").read_bytes() == b"new"
    assert on_disk.marked(node.marker) == [earlier, digest]
    assert node.prove(earlier) == []


@pytest.mark.parametrize("spoil", ["bytes", "link", "folder link", "gone"])
def test_what_an_earlier_bundle_no_longer_has_as_it_was_is_not_taken(
    node: Services, earlier: str, spoil: str
) -> None:
    digest = node.digest(NEW)
    node.arrange(digest)
    node.write(node.store / digest, NEW, content=False)
    path = node.store / earlier / "bin/same"
    outside = node.folder / "outside"
    outside.mkdir()
    (outside / "same").write_bytes(b"same")
    if spoil == "bytes":
        path.write_bytes(b"emas")
    elif spoil == "folder link":
        path.parent.rename(node.folder / "kept")
        path.parent.symlink_to(outside)
    else:
        path.unlink()
        if spoil == "link":
            path.symlink_to(outside / "same")
    absent, taken = node.fill(digest)
    assert "bin/moved" in absent
    assert taken == ["images/blobs/sha256/aa"]


def test_without_hard_links_files_are_copied(
    node: Services, earlier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    digest = node.digest(NEW)
    node.arrange(digest)
    node.write(node.store / digest, NEW, content=False)
    monkeypatch.setattr(os, "link", no_links)
    absent, taken = node.fill(digest)
    assert absent == ["bin/tool"]
    for name in taken:
        assert (node.store / digest / name).read_bytes() == NEW[name]
        assert (node.store / digest / name).stat().st_nlink == 1
    assert node.prove(earlier) == []


def test_folders_can_be_served_whatever_the_umask_of_root_is(node: Services, earlier: str) -> None:
    digest = node.digest(NEW)
    node.arrange(digest)
    node.write(node.store / digest, NEW, content=False)
    before = os.umask(0o077)
    try:
        node.fill(digest)
    finally:
        os.umask(before)
    for name in ("images", "images/blobs", "images/blobs/sha256", "bin"):
        assert (node.store / digest / name).stat().st_mode & 0o777 == 0o755
    assert node.prove(earlier) == []


def test_a_manifest_of_another_bundle_that_leads_out_gives_nothing(node: Services) -> None:
    secret = node.folder / "secret"
    secret.write_bytes(b"same")
    hostile = {"files": [{"path": "../../secret", "sha256": "0" * 64, "size": 4}]}
    other = node.store / ("a" * 64)
    other.mkdir(parents=True)
    (other / "manifest.json").write_text(json.dumps(hostile))
    digest = node.digest(NEW)
    node.arrange(digest)
    node.write(node.store / digest, NEW, content=False)
    assert node.fill(digest) == (list(NEW), [])


def test_a_bundle_without_its_manifest_is_not_filled(node: Services) -> None:
    digest = node.digest(NEW)
    node.arrange(digest)
    with pytest.raises(ValueError, match=r"manifest\.json is missing, or that of another"):
        node.fill(digest)
    assert filling.fill(node.proof(digest), node.current, check=True) == ([], [])


def test_a_bundle_that_somebody_keeps_on_another_disk_is_used_and_left(
    node: Services, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    node.write(disk, OLD)
    node.current.symlink_to(disk)
    digest = node.digest(NEW)
    node.arrange(digest)
    node.write(node.store / digest, NEW, content=False)
    assert node.fill(digest) == (["bin/tool"], ["bin/moved", "images/blobs/sha256/aa"])
    node.serve(digest)
    assert (disk / "bin/tool").read_bytes() == b"old"


def test_what_a_killed_run_left_behind_goes_with_the_last_verification(node: Services) -> None:
    digest = node.hold(NEW)
    own = node.store / digest
    (own / "bin/.moved.partial").write_bytes(b"half")
    (own / "bin/foreign").symlink_to("/etc/shadow")
    (own / "charts").symlink_to("/etc")
    assert node.proof(digest).prune(check=True) == ["bin/.moved.partial", "bin/foreign", "charts"]
    assert (own / "bin/foreign").is_symlink()
    node.proof(digest).prune()
    assert sorted(path.name for path in own.iterdir()) == ["bin", "images", "manifest.json"]
    assert node.prove(digest) == []


def test_the_link_is_replaced_in_one_step_even_after_a_kill(node: Services) -> None:
    one, two = node.hold(OLD), node.hold(NEW)
    node.serve(one)
    (node.folder / ".bundle.new").symlink_to("nowhere")
    node.serve(two)
    assert str(node.current.readlink()) == f"bundles/{two}"
    assert not os.path.lexists(node.folder / ".bundle.new")


def test_the_marker_lists_each_whole_bundle_once(node: Services) -> None:
    one, two = node.hold(OLD), node.hold(NEW)
    assert node.prove(one) == []
    assert on_disk.marked(node.marker) == [one, two]
    (node.store / one / "bin/tool").unlink()
    node.prove(one)
    assert on_disk.marked(node.marker) == [two]
    (node.store / two / "bin/tool").unlink()
    node.prove(two)
    assert not node.marker.exists()


def test_an_earlier_bundle_is_removed_and_the_served_one_stays_whole(node: Services) -> None:
    one, two = node.hold(OLD), node.hold(NEW)
    node.fill(two)
    node.serve(two)
    assert node.removal(one).refusal() is None
    assert node.removal(one).carry_out() == []
    assert sorted(path.name for path in node.store.iterdir()) == [two, f"{two}.files"]
    assert on_disk.marked(node.marker) == [two]
    assert node.prove(two) == []
    assert not node.removal(one).is_there()


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("served", "it is the bundle that is served"),
        ("not verified", "is not verified"),
        ("no link", "does not lead to a bundle of"),
        ("elsewhere", "does not lead to a bundle of"),
        ("another manifest", "its manifest is missing or that of another bundle"),
        ("no digest", "is not the digest of a bundle"),
        ("a link", "is not a folder"),
    ],
)
def test_a_bundle_is_removed_only_on_evidence(node: Services, case: str, words: str) -> None:
    one, two = node.hold(OLD), node.hold(NEW)
    node.serve(one if case == "served" else two)
    wanted = "../bundles" if case == "no digest" else one
    if case == "not verified":
        on_disk.mark(node.marker, two, complete=False)
    elif case in {"no link", "elsewhere"}:
        node.current.unlink()
        if case == "elsewhere":
            node.current.symlink_to("/etc")
    elif case == "another manifest":
        (node.store / one / "manifest.json").write_text('{"files": []}')
    elif case == "a link":
        (node.store / one).rename(node.folder / "kept")
        (node.store / one).symlink_to(node.folder / "kept")
    before = sorted(str(path) for path in node.folder.rglob("*"))
    assert words in str(node.removal(wanted).refusal())
    assert sorted(str(path) for path in node.folder.rglob("*")) == before


def test_a_removal_leaves_what_is_not_the_bundles_and_follows_no_link(node: Services) -> None:
    one, two = node.hold(OLD), node.hold(NEW)
    node.serve(two)
    path = node.store / one
    (path / "notes.txt").write_text("theirs")
    outside = node.folder / "outside"
    outside.mkdir()
    (outside / "aa").write_bytes(b"blob")
    (path / "images/blobs/sha256/aa").unlink()
    (path / "images/blobs/sha256").rmdir()
    (path / "images/blobs/sha256").symlink_to(outside)
    assert node.removal(one).carry_out() == ["images/blobs/sha256", "notes.txt"]
    assert (outside / "aa").read_bytes() == b"blob"
    assert (path / "notes.txt").read_text() == "theirs"
    assert not (path / "bin").exists()


def test_a_removal_that_was_killed_goes_on(node: Services) -> None:
    one, two = node.hold(OLD), node.hold(NEW)
    node.serve(two)
    (node.store / one / "bin/tool").unlink()
    on_disk.mark(node.marker, one, complete=False)
    assert node.removal(one).refusal() is None
    (node.store / one / "bin/same").unlink()
    (node.store / one / "images/blobs/sha256/aa").unlink()
    (node.store / one / "manifest.json").unlink()
    assert node.removal(one).refusal() is None
    assert node.removal(one).carry_out() == []
    assert not node.removal(one).is_there()
