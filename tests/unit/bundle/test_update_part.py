"""The updates are a part of a bundle of their own: listed, indexed, verified, in deltas."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.installed import read_installed, write_installed
from appliance.adapters.local.cache import Cache
from appliance.builder.build import BuildPorts, BuildRequest, build_bundle
from appliance.errors import BundleRefused, Refused
from appliance.model.bundle.carry.have import HaveList
from appliance.model.bundle.installed import KIND, InstalledList, InstalledPackages
from appliance.model.bundle.manifest import UPDATE_INDEXES, BundleManifest, Updates
from tests import samples
from tests.prerequisites import require
from tests.unit.bundle.samples import FakeLock, FakeObserver, FakeSources, FakeStore, release
from tests.unit.bundle.test_delta import Deltas

LIST = InstalledList(
    KIND,
    "debian-12",
    "2026-10-01T00:00:00Z",
    (InstalledPackages("w1", "6.1.0-28-amd64", {"openssl": "3.0"}, ("openssl",)),),
)


def built(since: str) -> tuple[BundleManifest, FakeStore]:
    store = FakeStore()
    request = BuildRequest(
        release(), "debian-12", "0", "2026-01-01T00:00:00Z", 1, since, ("w1",) if since else ()
    )
    ports = BuildPorts(FakeSources(), store, FakeLock(), FakeObserver())
    return build_bundle(request, ports).manifest, store


def test_the_manifest_names_updates_and_what_was_too_old() -> None:
    manifest, store = built("2026-10-01")
    assert manifest.updates == Updates(
        "2026-10-01", ("w1",), {"openssl": "1.1.1f-1ubuntu2.24"}, {"zlib1g": "1:1.2.11"}
    )
    assert [item.path for item in manifest.artifacts if item.kind == "update"] == [
        "updates/pool/openssl.deb"
    ]
    assert "updates/pool/openssl.deb" in store.files
    assert "openssl" not in manifest.packages


def test_without_a_day_a_bundle_has_no_updates() -> None:
    manifest, _ = built("")
    assert manifest.updates is None
    assert "updates" not in manifest.as_json()


def test_a_manifest_is_read_as_it_was_written() -> None:
    base = samples.manifest()
    index = replace(base.files[0], path="updates/Packages")
    whole = replace(
        base, files=(*base.files, index), updates=Updates("2026-10-01", ("w1",), {"a": "1"})
    )
    assert BundleManifest.parse(json.loads(json.dumps(whole.as_json()))) == whole
    assert whole.update_index_sha256 == base.files[0].sha256


def test_updates_without_their_index_are_refused() -> None:
    broken = replace(samples.manifest(), updates=Updates("2026-10-01"))
    with pytest.raises(BundleRefused, match="updates/Packages is not listed"):
        BundleManifest.parse(json.loads(json.dumps(broken.as_json())))


def deb(folder: Path, name: str) -> bytes:
    tree = folder / name / "DEBIAN"
    tree.mkdir(parents=True)
    (tree / "control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: N <n@e.test>\n"
        "Description: x\n"
    )
    path = folder / f"{name}.deb"
    words = ["dpkg-deb", "-Znone", "--build", str(tree.parent), str(path)]
    subprocess.run(words, check=True, capture_output=True)
    return path.read_bytes()


def test_a_delta_has_only_the_updates_that_a_site_lacks(tmp_path: Path) -> None:
    require("dpkg-deb")
    maker = Deltas(Cache(tmp_path / "cache"), tmp_path / "bundle")
    old, new = deb(tmp_path / "debs", "old"), deb(tmp_path / "debs", "new")
    maker.files = {"apt/pool/base.deb": old, "updates/pool/old.deb": old}
    maker.make()
    found = BundleDirectory(maker.directory)
    held = HaveList.of(found.manifest, found.digest)
    assert {file.path for file in found.manifest.files} >= UPDATE_INDEXES
    assert maker.faults() == []
    maker.files["updates/pool/new.deb"] = new
    maker.without = held
    maker.make()
    delta = BundleDirectory(maker.directory).delta
    assert delta is not None
    assert {"apt/pool/base.deb", "updates/pool/old.deb"} <= set(delta.files)
    assert "updates/pool/new.deb" not in delta.files
    text = (maker.directory / "updates/Packages").read_text()
    assert [line for line in text.splitlines() if line.startswith("Package: ")] == [
        *("Package: new", "Package: old"),
    ]


def test_a_later_build_without_updates_removes_them(tmp_path: Path) -> None:
    require("dpkg-deb")
    maker = Deltas(Cache(tmp_path / "cache"), tmp_path / "bundle")
    maker.files = {"updates/pool/old.deb": deb(tmp_path / "debs", "old")}
    maker.make()
    (maker.directory / "updates/pool/old.deb").write_bytes(b"changed")
    assert maker.faults()[0].startswith("updates/pool/old.deb: 7 bytes, expected")
    maker.files = {}
    maker.make()
    assert maker.faults() == []
    assert not [path for path in (maker.directory / "updates").rglob("*") if path.is_file()]


def test_a_list_is_read_as_it_was_written_and_replaces_only_a_list(tmp_path: Path) -> None:
    path = tmp_path / "packages.json"
    write_installed(path, LIST)
    assert read_installed(path) == LIST
    write_installed(path, LIST)
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(Refused, match="holds something else"):
        write_installed(other, LIST)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "bundle have"},
        {"nodes": []},
        {"nodes": [LIST.as_json()["nodes"][0]] * 2},
        {"nodes": [{**LIST.as_json()["nodes"][0], "packages": {"$(reboot)": "1"}}]},
        {"nodes": [{**LIST.as_json()["nodes"][0], "packages": {"a": "1 2"}}]},
        {"nodes": [{**LIST.as_json()["nodes"][0], "node": "../w1"}]},
        {"schema": 2},
    ],
)
def test_what_is_no_list_is_refused(changes: dict[str, Any]) -> None:
    text = json.dumps({**LIST.as_json(), **changes}).encode()
    with pytest.raises(BundleRefused):
        InstalledList.parse(text, "packages.json")
