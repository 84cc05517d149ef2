"""The bundle on the services node is proven, every byte."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

load("bundle_verify", role="artifact_server")
bundle_verify = importlib.import_module("ansible.module_utils.bundles_on_disk")

FILES = {"bin/kubeadm": b"kubeadm", "images/blobs/sha256/aa": b"blob", "apt/Packages": b""}


class Bundle:
    """A small bundle, its digest and its proof."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bundle"
        entries = []
        for name, content in FILES.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            entries.append({"path": name, "sha256": digest, "size": len(content)})
        manifest = json.dumps({"files": entries}).encode()
        (self.path / "manifest.json").write_bytes(manifest)
        self.digest = hashlib.sha256(manifest).hexdigest()
        self.marker = folder / "bundle.verified"

    def proof(self) -> Any:
        return bundle_verify.Verification(str(self.path), self.digest, str(self.marker))

    def prove(self) -> list[str]:
        proof = self.proof()
        faults, differing, proven = proof.look()
        proof.settle(differing, proven, not faults)
        return list(faults)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path)


def test_a_whole_bundle_is_marked_with_its_digest(bundle: Bundle) -> None:
    assert bundle.prove() == []
    assert bundle.marker.read_text() == bundle.digest + "\n"
    assert bundle.proof().is_marked()


def test_every_fault_is_found_at_once_and_the_marker_goes(bundle: Bundle) -> None:
    bundle.prove()
    (bundle.path / "bin/kubeadm").write_bytes(b"kubeadX")
    (bundle.path / "apt/Packages").unlink()
    assert bundle.prove() == ["apt/Packages is absent", "bin/kubeadm differs"]
    assert not bundle.marker.exists()
    assert not (bundle.path / "bin/kubeadm").exists(), "so that the next transfer brings it"


def test_a_change_that_keeps_size_and_time_is_found(bundle: Bundle) -> None:
    path = bundle.path / "bin/kubeadm"
    bundle.prove()
    before = path.stat()
    path.write_bytes(b"KUBEADM")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert bundle.prove() == ["bin/kubeadm differs"]


def test_what_did_not_change_is_not_read_again(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle.prove()
    read: list[str] = []
    real = bundle_verify.sha256

    def counting(path: Path) -> Any:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(bundle_verify, "sha256", counting)
    assert bundle.prove() == []
    assert read == ["manifest.json"]


@pytest.mark.parametrize("manifest", [None, b"{}"])
def test_without_the_requested_manifest_nothing_is_verified(
    manifest: bytes | None, bundle: Bundle
) -> None:
    bundle.prove()
    path = bundle.path / "manifest.json"
    if manifest is None:
        path.unlink()
    else:
        path.write_bytes(manifest)
    assert len(bundle.prove()) == 1
    assert not bundle.marker.exists()
    assert (bundle.path / "bin/kubeadm").exists()


def test_a_proof_of_another_bundle_is_worth_nothing(bundle: Bundle) -> None:
    bundle.prove()
    other = bundle_verify.Verification(str(bundle.path), "0" * 64, str(bundle.marker))
    assert other.known() == {}
    assert not other.is_marked()


def _with(bundle: Bundle, *entries: object) -> Any:
    """A proof of the bundle with another list of files, whose digest was asked for."""
    text = json.dumps({"files": list(entries)}).encode()
    (bundle.path / "manifest.json").write_bytes(text)
    bundle.digest = hashlib.sha256(text).hexdigest()
    return bundle.proof()


@pytest.mark.parametrize(
    "path",
    [
        "{outside}",
        "../outside",
        "bin/../../outside",
        "bin//kubeadm",
        "bin/./kubeadm",
        "bin",
        "manifest.json",
        "etc/shadow",
        "bin/a\nb",
        "bin/" + "x" * 300,
        "",
        5,
        None,
    ],
    ids=repr,
)
def test_a_manifest_that_names_another_place_removes_nothing(bundle: Bundle, path: Any) -> None:
    outside = bundle.path.parent / "outside"
    outside.write_text("theirs")
    if path == "{outside}":
        path = str(outside)
    good = {"path": "bin/kubeadm", "sha256": "0" * 64, "size": 1}
    proof = _with(bundle, good, {"path": path, "sha256": "0" * 64, "size": 0})
    with pytest.raises(ValueError, match="is not a path of a bundle"):
        proof.look()
    assert outside.read_text() == "theirs"
    assert (bundle.path / "bin/kubeadm").exists()


@pytest.mark.parametrize(
    "change", [{"sha256": "A" * 64}, {"sha256": 5}, {"size": "1"}, {"size": True}]
)
def test_a_manifest_with_another_digest_or_size_is_refused(bundle: Bundle, change: Any) -> None:
    proof = _with(bundle, {"path": "bin/kubeadm", "sha256": "0" * 64, "size": 1, **change})
    with pytest.raises(ValueError, match="its manifest has no"):
        proof.look()


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, "{}", '{"files": {}}', '{"files": [5]}'])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="its manifest"):
        bundle_verify.files_of(text)


def test_a_link_in_a_bundle_is_neither_read_nor_followed(bundle: Bundle) -> None:
    outside = bundle.path.parent / "outside"
    outside.mkdir()
    (outside / "kubeadm").write_bytes(FILES["bin/kubeadm"])
    for path in (bundle.path / "bin").iterdir():
        path.unlink()
    (bundle.path / "bin").rmdir()
    (bundle.path / "bin").symlink_to(outside)
    (bundle.path / "apt/Packages").unlink()
    (bundle.path / "apt/Packages").symlink_to("/dev/zero")
    assert bundle.prove() == [
        "apt/Packages is not a regular file",
        "bin/kubeadm is below a link",
    ]
    assert (outside / "kubeadm").exists()
