"""The bundle on the services node is proven, every byte."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

bundle_proof = load("bundle_proof", role="artifact_server")

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
        return bundle_proof.Proof(str(self.path), self.digest, str(self.marker))

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
    real = bundle_proof.sha256

    def counting(path: Path) -> Any:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(bundle_proof, "sha256", counting)
    assert bundle.prove() == []
    assert read == ["manifest.json"]


@pytest.mark.parametrize("manifest", [None, b"{}"])
def test_without_the_manifest_asked_for_nothing_is_proven(
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
    other = bundle_proof.Proof(str(bundle.path), "0" * 64, str(bundle.marker))
    assert other.known() == {}
    assert not other.is_marked()
