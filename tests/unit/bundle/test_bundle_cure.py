"""What the hint says of a broken bundle is done, and the bundle is whole; with less it is not."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.bundle.directory import _unreadable
from appliance.adapters.local.cache import Cache
from appliance.errors import BuildFailed, Refused
from appliance.model.bundle.faults import BundleFault, build_command, cure
from appliance.model.bundle.manifest import BundledArtifact, BundleManifest, SourceUsed
from tests.unit.bundle.test_bundle_directory import Maker

HAND = "remove by hand what no build wrote: "
IN_THE_WAY = "remove what blocks the path of a bundle's file: "
MANIFEST = BundleManifest("r1", "debian-12", "amd64", "0", "2026-01-01T00:00:00Z")
AGAIN = "appliance bundle build --release r1 --os debian-12"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    made = Maker(Cache(tmp_path / "cache"), tmp_path / "bundle")
    made.make()
    return made


def truncate(folder: Path) -> None:
    (folder / "bin/tool").write_bytes(b"t")


def lose(folder: Path) -> None:
    (folder / "bin/tool").unlink()


def link(folder: Path) -> None:
    lose(folder)
    (folder / "bin/tool").symlink_to("/etc/hostname")


def pipe(folder: Path) -> None:
    lose(folder)
    os.mkfifo(folder / "bin/tool")


def leave_over(folder: Path) -> None:
    (folder / "apt/pool/old_1_amd64.deb").write_bytes(b"x")
    (folder / f"images/blobs/sha256/{'0' * 64}").write_bytes(b"x")


def break_index(folder: Path) -> None:
    (folder / "images/index.json").write_text("{}")


@pytest.mark.parametrize("harm", [truncate, lose, link, pipe, leave_over, break_index])
def test_a_fault_that_a_build_repairs_has_the_build_in_its_hint(
    maker: Maker, harm: Callable[[Path], None]
) -> None:
    harm(maker.directory)
    assert maker.cure() == f"{AGAIN} {maker.directory} repairs it, from the cache or the internet"
    maker.make()
    assert maker.faults() == []


def stranger(folder: Path) -> str:
    (folder / "bin/their script").write_text("theirs")
    return "bin/their script"


def stranger_link(folder: Path) -> str:
    (folder / "wheels/theirs").symlink_to("/etc")
    return "wheels/theirs"


@pytest.mark.parametrize("harm", [stranger, stranger_link])
def test_what_a_build_leaves_alone_is_said_to_go_by_hand(
    maker: Maker, harm: Callable[[Path], str]
) -> None:
    path = maker.directory / harm(maker.directory)
    assert maker.cure() == HAND + shlex.quote(str(path))
    maker.make()
    assert maker.faults() != [], "the premise: building again does not mend it"
    path.unlink()
    assert maker.faults() == []


def folder_as_file(folder: Path) -> str:
    lose(folder)
    (folder / "bin/tool").mkdir()
    (folder / "bin/tool/theirs").write_text("x")
    return "bin/tool"


def file_as_folder(folder: Path) -> str:
    shutil.rmtree(folder / "bin")
    (folder / "bin").write_text("x")
    return "bin"


def linked_folder(folder: Path) -> str:
    (folder / "images/blobs").rename(folder / "elsewhere")
    (folder / "images/blobs").symlink_to(folder / "elsewhere")
    return "images/blobs"


@pytest.mark.parametrize("harm", [folder_as_file, file_as_folder, linked_folder])
def test_what_is_in_a_builds_way_is_named_before_the_build(
    maker: Maker, harm: Callable[[Path], str]
) -> None:
    path = maker.directory / harm(maker.directory)
    hint = maker.cure()
    assert f"{IN_THE_WAY}{path}; then {AGAIN} {maker.directory} repairs " in hint
    with pytest.raises((Refused, BuildFailed)):
        maker.make()
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    maker.make()
    assert maker.faults() == []


def test_several_kinds_come_in_the_order_in_which_they_help(maker: Maker) -> None:
    truncate(maker.directory)
    stranger(maker.directory)
    hint = maker.cure()
    assert hint.startswith(HAND)
    assert hint.endswith("; then " + f"{AGAIN} {maker.directory} repairs the rest, "
                         "from the cache or the internet")  # fmt: skip


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EIO, "in the way"), (errno.EACCES, "access"), (errno.ELOOP, "build")],
)
def test_an_unreadable_file_has_its_remedy_in_the_hint(number: int, kind: str) -> None:
    fault = _unreadable("bin/a", OSError(number, os.strerror(number)))
    assert fault.kind == kind


def test_a_file_that_may_not_be_read_is_a_matter_of_rights() -> None:
    faults = [BundleFault("bin/a: not readable: Permission denied", "access", "bin/a")]
    assert cure("/media/b", MANIFEST, faults) == (
        "let this user read /media/b/bin/a, or use a user who can"
    )


def test_thousands_of_strangers_are_counted() -> None:
    faults = [BundleFault("x", "stranger", f"bin/{n}") for n in range(5000)]
    assert cure("/b", MANIFEST, faults) == f"{HAND}/b/bin/0 /b/bin/1 /b/bin/2 and 4997 more"


def test_the_command_builds_this_bundle_and_not_another() -> None:
    source = SourceUsed("file", "vendor.tgz", "sha256")
    brought = BundledArtifact("vendor", "1", "chart", "charts/v.tgz", "0" * 64, 1, source)
    of_a_lab = replace(brought, source=SourceUsed("local", "standins", "built"), standin=True)
    place = "/media/my bundle"
    assert build_command(place, MANIFEST) == f"{AGAIN} '{place}'"
    files = replace(MANIFEST, artifacts=(brought,))
    assert build_command(place, files) == f"{AGAIN} --files FOLDER '{place}'"
    assert build_command("/b", replace(MANIFEST, artifacts=(of_a_lab,))) == f"{AGAIN} --standins /b"


def test_a_manifest_cannot_write_commands_into_the_hint() -> None:
    said = build_command("/b", replace(MANIFEST, release="r1; reboot"))
    assert shlex.split(said)[4] == "r1; reboot"


def test_nothing_wrong_needs_nothing() -> None:
    assert cure("/b", MANIFEST, []) == ""
