"""All sources together, over a signed package archive and a web server of the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.local.cache import Cache
from appliance.builder.archive_keys import find_keys
from appliance.builder.fetch import Sources
from appliance.builder.sources.apt import packages as packages_module
from appliance.builder.sources.apt.packages import TargetPackages, target_of
from appliance.builder.sources.apt.sources import stanza_fields
from appliance.builder.sources.wheels import own_content
from appliance.errors import BuildFailed, BundleRefused
from appliance.model.bundle.archives.archive import AptArchive, ArchiveKey, Keyring
from appliance.model.bundle.release.release import OperatingSystem
from tests.integration.bundle.web import Web
from tests.package_archive import Archive, signing_key
from tests.package_suites import keys
from tests.prerequisites import require
from tests.unit.bundle.samples import artifact, release


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    require("gpg")
    with signing_key() as key:
        found = Archive(tmp_path / "archive", key)
        found.add("base", Essential="yes")
        found.add("library")
        found.add("chrony", "4.3", Depends="library")
        found.publish()
        yield found


def packages_of(cache: Cache, archive: Archive) -> TargetPackages:
    return TargetPackages(cache, archive.target)


def test_packages_come_into_the_cache_with_all_they_need(cache: Cache, archive: Archive) -> None:
    packages = packages_of(cache, archive)
    closure = packages.closure(["chrony"], essential=True)
    assert [item.name for item in closure] == ["base", "chrony", "library"]
    paths = packages.fetch(closure)
    assert all(path.is_file() for path in paths.values())
    assert packages.stale == ""


def test_indexes_of_the_last_build_serve_when_the_archive_is_gone(
    cache: Cache, archive: Archive
) -> None:
    first = packages_of(cache, archive)
    first.fetch(first.closure(["chrony"], essential=True))
    (archive.folder / "InRelease").unlink()
    again = packages_of(cache, archive)
    closure = again.closure(["chrony"], essential=True)
    assert len(again.fetch(closure)) == 3
    assert "package archive" in again.stale


def test_an_archive_that_was_never_read_is_refused_once_and_remembered(
    cache: Cache, archive: Archive
) -> None:
    (archive.folder / "InRelease").unlink()
    packages = packages_of(cache, archive)
    for _ in range(2):
        with pytest.raises(BuildFailed, match="package archive"):
            packages.closure(["chrony"], essential=True)


def test_a_release_names_its_archives_with_the_keys_that_sign_them(
    tmp_path: Path, cache: Cache
) -> None:
    require("gpg")
    with keys() as made:
        for owner in ("archive", "stranger"):
            made.make(owner)
        ours, both = made.export("archive"), made.export("stranger", "archive")
        fingerprint = made.fingerprint("archive")
    ring = Keyring(
        keys=(ArchiveKey(fingerprint=fingerprint, title="x"),), url="http://archive.test/k"
    )
    named = AptArchive(
        uri="http://archive.test/ubuntu", suites=("focal", "focal-updates"),
        components=("main", "universe"), keyring=ring,
    )  # fmt: skip
    system = OperatingSystem(title="x", versions={}, archives=(named,), package_roots={})
    with pytest.raises(BundleRefused, match="lacks the signing keys of a package archive"):
        find_keys([named], (), root=tmp_path)
    folder = tmp_path / "usr/share/keyrings"
    folder.mkdir(parents=True)
    (folder / "archive.gpg").write_bytes(both)
    (folder / "other.gpg").write_bytes(b"no keyring")
    found = find_keys([named], (), root=tmp_path)
    assert found == {fingerprint: ours}
    (source,) = target_of("ubuntu-20.04", system, "amd64", cache, found).sources
    assert "Suites: focal focal-updates" in source
    signed_by = Path(stanza_fields(source)["signed-by"])
    assert signed_by.read_bytes() == ours


def test_the_release_asks_for_packages_and_gets_their_closure(
    cache: Cache, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages_module, "host_target", lambda *_: archive.target())
    found = release(
        artifact("tool"),
        operating_systems={
            "debian-12": {"title": "x", "versions": {}, "package_roots": {"time": ["chrony"]}}
        },
    )
    fetched = Sources(found, "debian-12", cache, folder=tmp_path).packages()
    assert {file.name: file.version for file in fetched.files}["chrony"] == "4.3"
    assert {file.path for file in fetched.files} == {
        "apt/pool/base_1.0_amd64.deb",
        "apt/pool/chrony_4.3_amd64.deb",
        "apt/pool/library_1.0_amd64.deb",
    }
    assert fetched.verified == "apt"
    assert all(file.origin for file in fetched.files)


def test_each_kind_of_source_is_known(cache: Cache, web: Web, tmp_path: Path) -> None:
    web.pages["/tool"] = ("application/octet-stream", b"tool")
    url = {"kind": "url", "url": f"{web.base}/tool"}
    found = release(artifact("tool", sources=[url]))
    sources = Sources(found, "debian-12", cache, folder=tmp_path)
    (tool,) = found.artifacts
    fetched = sources.fetch(tool, tool.sources[0], {})
    assert (fetched.kind, fetched.file.path) == ("url", "bin/tool")
    sources.stop()


KILLED = """
import sys
from pathlib import Path
from appliance.builder.sources.url import fetch
fetch(sys.argv[1], Path(sys.argv[2]))
"""


def test_a_download_that_was_killed_goes_on(web: Web, tmp_path: Path) -> None:
    from appliance.builder.sources.url import fetch

    content = bytes(range(256)) * 4000
    web.pages["/big"] = ("application/octet-stream", content)
    web.stall_after = 300_000
    partial = tmp_path / "partial"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, f"{web.base}/big", partial],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    deadline = time.monotonic() + 20
    while not (partial.exists() and partial.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    kept = partial.stat().st_size
    assert 0 < kept < len(content)
    web.resume.set()
    fetch(f"{web.base}/big", partial)
    assert web.ranges == [f"bytes={kept}-"]
    assert partial.read_bytes() == content


def test_our_own_content_changes_with_what_is_shipped_only(tmp_path: Path) -> None:
    (tmp_path / "appliance/__pycache__").mkdir(parents=True)
    (tmp_path / "appliance/tool.py").write_text("1")
    (tmp_path / "inventories/example/.appliance").mkdir(parents=True)
    first = own_content(tmp_path)
    (tmp_path / "appliance/__pycache__/tool.pyc").write_text("x")
    (tmp_path / "inventories/example/.appliance/secret").write_text("x")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test.py").write_text("x")
    assert own_content(tmp_path) == first
    (tmp_path / "appliance/tool.py").write_text("2")
    assert own_content(tmp_path) != first
