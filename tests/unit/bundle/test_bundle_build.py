"""The build takes the first source that works, each artifact once, and names all faults at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from appliance.builder.build import BuildPorts, BuildRequest, BuildResult, build_bundle, unverified
from appliance.errors import BuildFailed, CommandFailed
from appliance.model.bundle.builds.fetched import FetchedArtifact
from appliance.model.bundle.manifest import BundleManifest
from tests.unit.bundle.samples import (
    FakeLock,
    FakeObserver,
    FakeSources,
    FakeStore,
    artifact,
    image_of,
    release,
)


class FakeSigner:
    """Signs what the store holds when it is asked."""

    path = "/media/bundle/manifest.json.sig"

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self.signed: BundleManifest | None = None

    def sign(self) -> bool:
        self.signed = self._store.sealed
        return False


class Build:
    """One build with fakes."""

    def __init__(self, *artifacts: dict[str, Any], jobs: int = 3) -> None:
        self.sources = FakeSources()
        self.store = FakeStore()
        self.lock = FakeLock()
        self.observer = FakeObserver()
        self.signer: FakeSigner | None = None
        self._request = BuildRequest(
            release(*artifacts), "debian-12", "0.1.0", "2026-01-01T00:00:00Z", jobs
        )

    def run(self) -> BuildResult:
        ports = BuildPorts(self.sources, self.store, self.lock, self.observer, self.signer)
        return build_bundle(self._request, ports)

    def source_of(self, name: str, manifest: BundleManifest) -> tuple[str, tuple[Any, ...]]:
        (found,) = [item for item in manifest.artifacts if item.name == name]
        return found.source.kind, found.source.skipped


def test_the_first_source_that_works_is_taken_and_those_before_it_are_named() -> None:
    build = Build(artifact("tool"), artifact("other"))
    build.sources.break_source("tool", "url")
    manifest = build.run().manifest
    skipped = (("url", "https://maker.test/tool", "cannot be reached"),)
    assert build.source_of("tool", manifest) == ("go", skipped)
    assert build.source_of("other", manifest) == ("url", ())
    assert build.observer.skips == [("binary tool", "https://maker.test/tool", "cannot be reached")]


def test_a_source_may_bring_another_version_than_the_artifact_names() -> None:
    go = {"kind": "go", "module": "t", "package": "p", "at": "v0.9.1", "version": "0.9.1"}
    manifest = Build(artifact("bridge", "cni", sources=[go])).run().manifest
    assert {item.name: item.version for item in manifest.artifacts}["bridge"] == "0.9.1"


def test_a_part_is_taken_once_for_all_images_and_is_no_artifact_of_the_bundle() -> None:
    build = Build(
        artifact("core", "part"), image_of("web", "core"), image_of("api", "core"), jobs=4
    )
    built = build.run()
    assert [name for name, _ in build.sources.fetched].count("core") == 1
    assert "core" not in {item.name for item in built.manifest.artifacts}
    assert not [path for path in build.store.files if path.startswith("parts/")]


def test_a_part_is_not_taken_when_an_earlier_source_of_the_image_works() -> None:
    image = image_of("web", "core")
    image["sources"].insert(0, {"kind": "oci", "reference": "registry.test/web:v1"})
    build = Build(artifact("core", "part"), image)
    build.run()
    assert build.sources.fetched == [("web", "oci")]


def test_all_faults_are_named_at_once_and_nothing_is_written() -> None:
    build = Build(artifact("core", "part"), artifact("tool"), image_of("web", "core"))
    for name in ("tool", "core"):
        build.sources.break_source(name, "url")
        build.sources.break_source(name, "go", f"{name} does not compile")
    build.sources.broken["packages", "apt"] = BuildFailed("no archive", details=["why"])
    with pytest.raises(BuildFailed, match="3 of 4 artifacts") as caught:
        build.run()
    text = "\n".join(caught.value.details)
    assert "packages: no archive" in text
    assert "tool does not compile" in text
    assert "image web: no source works" in text
    assert "core does not compile" in text
    assert build.store.sealed is None
    assert not build.store.files


def test_the_manifest_names_images_packages_and_their_roots() -> None:
    build = Build(artifact("core", "part"), image_of("web", "core"))
    manifest = build.run().manifest
    (image,) = [item for item in manifest.artifacts if item.kind == "image"]
    assert manifest.images == {"web:v1": f"sha256:{image.sha256}"}
    assert build.store.images["web:v1"][0] == image.sha256
    assert manifest.packages == {"chrony": "4.3", "docker.io": "20.10.24"}
    assert manifest.package_roots["runtime"] == ("docker.io", "chrony")
    assert build.source_of("chrony", manifest)[0] == "apt"
    assert build.store.prepared == ("r1", "debian-12")


def test_what_nothing_vouches_for_is_recorded_and_told() -> None:
    build = Build(artifact("tool"))
    built = build.run()
    assert build.lock.recorded == {"https://maker.test/tool": "ab" * 32}
    assert [item.name for item in unverified(built.manifest)] == ["tool"]


def test_the_observer_hears_of_everything_that_is_to_be_taken() -> None:
    build = Build(artifact("core", "part"), artifact("tool"), image_of("web", "core"))
    build.run()
    assert build.observer.names == ["packages", "wheels", "binary tool", "image web"]
    assert set(build.observer.outcomes) == {*build.observer.names, "part core"}
    assert all(isinstance(found, FetchedArtifact) for found in build.observer.outcomes.values())


def test_an_error_that_is_no_refusal_also_leads_to_the_next_source() -> None:
    build = Build(artifact("tool"))
    build.sources.broken["tool", "url"] = CommandFailed("tar failed")
    assert build.source_of("tool", build.run().manifest)[0] == "go"


def test_stale_indexes_are_reported() -> None:
    build = Build(artifact("tool"))
    found = build.sources.packages()
    stale = FetchedArtifact(
        found.kind, found.ref, "apt", found.files, details={"stale": "of last week"}
    )
    build.sources.packages = lambda: stale  # type: ignore[method-assign]
    build.run()
    assert ("packages", "roots", "of last week") in build.observer.skips


def test_an_interrupt_stops_the_sources_and_is_passed_on() -> None:
    build = Build(artifact("tool"), artifact("other"))

    def interrupt(_name: str) -> None:
        raise KeyboardInterrupt

    build.sources.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        build.run()
    assert build.sources.stopped
    assert build.store.sealed is None


def test_what_begins_while_an_interrupt_ends_the_rest_is_ended_too() -> None:
    build = Build(artifact("first"), *(artifact(f"tool{n}") for n in range(6)), jobs=2)
    began: list[str] = []
    ended = threading.Event()

    def wait_for_the_end(name: str) -> None:
        if name == "first":
            raise KeyboardInterrupt
        began.append(name)
        ended.wait(20)
        ended.clear()

    build.sources.before = wait_for_the_end
    build.sources.stop = ended.set  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        build.run()
    assert len(began) <= 2
    assert not [name for name in build.observer.outcomes if name.startswith("binary")]


def test_a_bundle_is_signed_when_it_is_sealed() -> None:
    build = Build(artifact("tool"))
    build.signer = FakeSigner(build.store)
    assert build.signer.signed is None
    built = build.run()
    assert build.signer.signed == built.manifest
    assert any("signing: /media/bundle/manifest.json.sig" in note for note in build.observer.notes)


def test_a_signature_that_was_removed_is_reported() -> None:
    build = Build(artifact("tool"))
    build.run()
    assert not any("signature" in note for note in build.observer.notes)
    build.store.signed_before = True
    build.run()
    assert any("removed the signature" in note for note in build.observer.notes)
