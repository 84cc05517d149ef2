"""A manifest is somebody else's text until it is read: nothing in it leads out of the bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.mirror import read_mirror
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import BundleRefused
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.site.settings import Node
from tests import samples

FILE = {"path": "bin/tool", "sha256": "0" * 64, "size": 4}
ARTIFACT: dict[str, Any] = {
    **FILE,
    "name": "tool",
    "version": "1",
    "kind": "binary",
    "source": {"kind": "url", "ref": "r", "verified": "never", "skipped": []},
}


def document(**changes: Any) -> dict[str, Any]:
    return {**samples.manifest().as_json(), "files": [FILE], "artifacts": [ARTIFACT], **changes}


def _file(**changes: Any) -> dict[str, Any]:
    return document(files=[{**FILE, **changes}])


def _artifact(**changes: Any) -> dict[str, Any]:
    return document(artifacts=[{**ARTIFACT, **changes}])


HOSTILE: dict[str, Any] = {
    "a list": [],
    "an absolute path": _file(path="/etc/passwd"),
    "a way up": _file(path="bin/../../etc/passwd"),
    "a way up from the start": _file(path="../../../dev/zero"),
    "another folder": _file(path="etc/passwd"),
    "the manifest itself": _file(path="manifest.json"),
    "a line break": _file(path="bin/a\nb"),
    "a control character": _file(path="bin/\x1b[2K"),
    "a number for a path": _file(path=5),
    "a digest in capitals": _file(sha256="A" * 64),
    "a digest that is a path": _file(sha256="../" * 21 + "a"),
    "text for a size": _file(size="4"),
    "a size before zero": _file(size=-1),
    "a size without end": _file(size=1 << 62),
    "a file listed twice": document(files=[FILE, FILE]),
    "files by name": document(files={"bin/tool": FILE}),
    "a file that is none": document(files=[5]),
    "an artifact elsewhere": _artifact(path="/bin/sh"),
    "an artifact without a source": _artifact(source=None),
    "a skipped source that is none": _artifact(source={**ARTIFACT["source"], "skipped": [5]}),
    "an image by another digest": document(images={"web:v1": "sha256:../../etc"}),
    "an image with a template for a name": document(images={"{{ x }}": "sha256:" + "0" * 64}),
    "a package with a template for a version": document(packages={"chrony": "{{ 7*7 }}"}),
    "a package name that is an option": document(packages={"--purge": "1"}),
    "a root without a package": document(package_roots={"time": ["nowhere"]}),
    "roots that are text": document(package_roots={"time": "chrony"}),
    "a release that is a number": document(release=1.235),
    "a higher schema": document(schema=2),
    "a schema that is text": document(schema="1"),
}


@pytest.mark.parametrize("found", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_manifest_that_is_not_sound_is_refused_as_that(tmp_path: Path, found: Any) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(found))
    with pytest.raises(BundleRefused):
        BundleDirectory(tmp_path)


def test_a_sound_manifest_is_read_and_written_the_same() -> None:
    manifest = BundleManifest.parse(document())
    assert BundleManifest.parse(json.loads(json.dumps(manifest.as_json()))) == manifest


def test_a_higher_schema_is_reported_with_its_number() -> None:
    with pytest.raises(BundleRefused, match="schema 7, and this version reads 1") as told:
        BundleManifest.parse({"schema": 7, "files": "another shape"})
    assert "the version of this tool that built it" in (told.value.hint or "")


def _as_link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def _as_folder_elsewhere(path: Path, target: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    target.mkdir()
    (target / "tool").write_bytes(b"tool")
    path.parent.symlink_to(target)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path, _: _as_link(path, Path("/dev/zero")), "a link, expected a regular file"),
        (_as_link, "a link, expected a regular file"),
        (_as_folder_elsewhere, "its folder is a link"),
    ],
    ids=["an endless device", "a file elsewhere", "a folder elsewhere"],
)
def test_verify_reads_only_regular_files_of_the_bundle(
    tmp_path: Path, harm: Callable[[Path, Path], None], said: str
) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "bin").mkdir(parents=True)
    (bundle / "bin" / "tool").write_bytes(b"tool")
    (bundle / "manifest.json").write_text(json.dumps(document(images={}, artifacts=[])))
    harm(bundle / "bin" / "tool", tmp_path / "elsewhere")
    faults = BundleDirectory(bundle).faults()
    assert any(said in str(fault) for fault in faults)


class Saying(SshNodes):
    """A services node that says one thing."""

    def __init__(self, text: str) -> None:
        self.text = text

    def run(self, node: Node, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        del node, command, stdin, timeout
        return Answer(0, self.text, "")


@pytest.mark.parametrize("text", ["[" * 100_000, json.dumps(_file(path="/etc/passwd")), "{}", "no"])
def test_an_invalid_manifest_of_the_mirror_counts_as_absent_and_is_named(text: str) -> None:
    said: list[str] = []
    desired = samples.desired(with_bundle=False)
    assert read_mirror(desired, Saying(text), said.append) == desired
    (sentence,) = said
    assert sentence.startswith("cp1: /var/lib/appliance/bundle/manifest.json is ignored")
