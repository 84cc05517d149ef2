"""A vendor bundle is read in one pass; whatever is wrong with it is told in a sentence."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

import pytest

from appliance.adapters.bundle import vendor_bundle
from appliance.adapters.bundle.vendor_bundle import (
    find_vendor_bundle,
    is_remembered,
    load_vendor_bundle,
)
from appliance.errors import ConfigError
from appliance.model.bundle.vendor.bundle import Generation, VendorBundle
from tests import samples
from tests.vendor_bundles import NAMES, tiny_bundle, with_member, without

KUBERNETES = "1.23.5"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLIANCE_CACHE", str(tmp_path / "cache"))


def read(path: Path) -> VendorBundle:
    return VendorBundle(vendor_bundle.read_contents(path))


@pytest.mark.parametrize("compressed", [False, True], ids=["tar", "tar.gz"])
@pytest.mark.parametrize(
    ("version", "generation"),
    [
        ("2.4.1", Generation.VALUES),
        ("2.8.9", Generation.VALUES),
        ("2.9.0", Generation.VALUES_BARE),
        ("2.11.2", Generation.VALUES_BARE),
        ("2.17.3", Generation.CONTROL_PLANE),
    ],
)
def test_version_and_generation_follow_from_what_is_inside(
    tmp_path: Path, version: str, generation: Generation, *, compressed: bool
) -> None:
    path = tiny_bundle(version, tmp_path, compressed=compressed)
    found = read(path.rename(tmp_path / "renamed.bin"))
    assert (found.version, found.generation) == (version, generation)
    assert (found.missing, found.contents.faults) == ((), ())
    assert found.script == "deploy/prepare_installation.sh"
    assert found.deploy == "deploy"
    assert {image.tag for image in found.contents.images} == {
        f"gcr.io/run-ai-prod/{name}:{version}" for name in NAMES
    }
    assert all(len(image.config) == 64 for image in found.contents.images)
    assert any("not one of the documented names" in remark for remark in found.remarks)


def test_a_layer_that_images_share_is_counted_once_an_archive(tmp_path: Path) -> None:
    found = read(tiny_bundle("2.7.1", tmp_path))
    assert found.contents.layer_bytes == 12288  # 10000 bytes on blocks of 4096


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    import hashlib

    path = tiny_bundle("2.7.1", tmp_path, compressed=True)
    found = read(path)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.contents.size == path.stat().st_size


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.995])
@pytest.mark.parametrize("compressed", [False, True], ids=["tar", "tar.gz"])
def test_a_truncated_bundle_is_reported(tmp_path: Path, keep: float, *, compressed: bool) -> None:
    path = tiny_bundle("2.7.1", tmp_path, compressed=compressed)
    size = path.stat().st_size
    # Debris of tar's own blocks at the end is no loss.
    os.truncate(path, min(int(size * keep), size - 12_000) if not compressed else int(size * keep))
    (fault,) = read(path).faults(KUBERNETES)
    assert "truncated" in fault


def test_a_bundle_that_ends_between_two_members_is_truncated(tmp_path: Path) -> None:
    path = tiny_bundle("2.7.1", tmp_path)
    with tarfile.open(path) as archive:
        third = archive.getmembers()[3]
    os.truncate(path, third.offset)
    assert read(path).faults(KUBERNETES) == ("the archive is truncated",)


def test_a_damaged_header_is_no_end(tmp_path: Path) -> None:
    path = tiny_bundle("2.7.1", tmp_path)
    with tarfile.open(path) as archive:
        third = archive.getmembers()[3]
    with path.open("r+b") as stream:
        stream.seek(third.offset + 10)
        stream.write(b"\xff" * 200)
    assert "the archive is damaged at byte" in read(path).faults(KUBERNETES)[0]


@pytest.mark.parametrize(
    "content",
    [b"no tar at all" * 100, b"", gzip.compress(b"x" * 2000)],
    ids=["no tar", "empty", "gzip of no tar"],
)
def test_something_else_is_no_bundle(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runai-2.7.1.tar"
    path.write_bytes(content)
    assert read(path).contents.faults


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (tarfile.TarInfo("../evil"), "outside"),
        (tarfile.TarInfo("deploy/../../evil"), "outside"),
        (tarfile.TarInfo("/etc/cron.d/evil"), "outside"),
        (link("deploy/a", "/etc"), "links to '/etc'"),
        (link("deploy/a", "../../etc"), "links to"),
        (link("deploy/a", "../etc/passwd", tarfile.LNKTYPE), "links to"),
        (link("deploy/dev", "", tarfile.CHRTYPE), "is a device"),
        (tarfile.TarInfo("deploy/{{ lookup('pipe', 'id') }}"), "has a name that no bundle needs"),
    ],
)
def test_a_member_that_would_leave_its_folder_is_reported(
    tmp_path: Path, member: tarfile.TarInfo, said: str
) -> None:
    (fault,) = read(with_member(tiny_bundle("2.7.1", tmp_path), member)).faults(KUBERNETES)
    assert said in fault


def test_a_link_inside_is_fine(tmp_path: Path) -> None:
    path = with_member(tiny_bundle("2.7.1", tmp_path), link("deploy/x/latest", "../images"))
    assert read(path).faults(KUBERNETES) == ()


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("runai-backend-2.7.1.tgz", "it lacks the backend's chart"),
        ("runai-cluster-2.7.1.tgz", "it lacks the cluster's chart"),
        ("prepare_installation.sh", "it lacks prepare_installation.sh"),
        ("runai-admin-cli-2.7.1-linux-amd64.tar.gz", "it lacks the admin CLI"),
    ],
)
def test_what_an_install_needs_is_missed(tmp_path: Path, gone: str, said: str) -> None:
    (fault,) = read(without(tiny_bundle("2.7.1", tmp_path), gone)).faults(KUBERNETES)
    assert fault.startswith(said)


def test_without_archives_the_pushes_cannot_be_told_and_it_is_said(tmp_path: Path) -> None:
    path = without(tiny_bundle("2.7.1", tmp_path), "control-plane.tar", "cluster.tar.gz")
    found = read(path)
    assert found.faults(KUBERNETES) == ()
    assert any("cannot be looked for in the registry" in remark for remark in found.remarks)


def test_a_chart_that_is_broken_inside_is_reported(tmp_path: Path) -> None:
    path = without(tiny_bundle("2.7.1", tmp_path), "runai-cluster-2.7.1.tgz")
    broken = with_member(path, tarfile.TarInfo("deploy/runai-cluster-2.7.1.tgz"), b"x" * 600)
    assert (
        "the chart deploy/runai-cluster-2.7.1.tgz in it cannot be read"
        in (read(broken).faults(KUBERNETES)[0])
    )


def test_what_was_read_is_remembered_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_bundle("2.7.1", tmp_path)
    assert not is_remembered(path)
    first = load_vendor_bundle(path)
    assert is_remembered(path)
    monkeypatch.setattr(vendor_bundle, "read_contents", lambda _: pytest.fail("read again"))
    assert load_vendor_bundle(path) == first
    monkeypatch.undo()
    monkeypatch.setenv("APPLIANCE_CACHE", str(tmp_path / "cache"))
    os.truncate(path, 5000)
    assert load_vendor_bundle(path).contents.faults


def test_a_bundle_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: No such file") as caught:
        load_vendor_bundle(tmp_path / "none.tar")
    assert "runai.vendor_bundle" in str(caught.value.hint)


def test_the_sites_bundle_is_looked_for_from_its_directory(tmp_path: Path) -> None:
    import dataclasses

    path = tiny_bundle("2.7.1", tmp_path)
    site = dataclasses.replace(samples.site(runai={"vendor_bundle": path.name}), directory=tmp_path)
    found = find_vendor_bundle(site)
    assert found is not None
    assert found.version == "2.7.1"
    assert find_vendor_bundle(dataclasses.replace(site, directory=tmp_path / "x")) is None
    assert find_vendor_bundle(samples.site()) is None
