"""Stand-ins take the place of artifacts, and everything that shows a bundle says so."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.adapters.local.content import STANDINS, load_release, load_release_with_standins
from appliance.builder.build import BuildPorts, BuildRequest, build_bundle
from appliance.cli.commands.lab.parts import played_all_the_same
from appliance.cli.commands.status.view import show_status, status_as_json
from appliance.cli.exits import run
from appliance.errors import SourceUnavailable
from appliance.model.bundle.faults import build_command
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import (
    CLibrarySource,
    ComposeSource,
    GoFileSource,
    GoSource,
    LocalChartSource,
    LocalSource,
    is_genuine,
    wants_genuine,
)
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import Plan
from tests.samples import site
from tests.unit.bundle.samples import (
    GO,
    URL,
    FakeLock,
    FakeObserver,
    FakeSources,
    FakeStore,
    artifact,
    release,
)

Capture = pytest.CaptureFixture[str]
CHART = {"kind": "local-chart", "path": "gpu_standin/chart"}


def standin(name: str, kind: str = "chart", **fields: Any) -> Artifact:
    return Artifact.model_validate(artifact(name, kind, **{"sources": [CHART], **fields}))


def test_a_stand_in_takes_the_place_of_the_artifact_of_its_kind_and_name() -> None:
    found = release(artifact("gpu", "chart"), artifact("gpu", "image")).with_standins(
        [standin("gpu", version="2.0")]
    )
    assert [(a.kind, a.version, a.standin) for a in found.artifacts_on("debian-12")] == [
        ("image", "1.0", False),
        ("chart", "2.0", True),
    ]


def test_a_stand_in_for_one_system_leaves_the_artifact_to_the_others() -> None:
    found = release(artifact("gpu", "chart")).with_standins(
        [standin("gpu", operating_systems=["debian-12"])]
    )
    assert [a.standin for a in found.artifacts_on("debian-12")] == [True]
    assert [a.standin for a in found.artifacts_on("ubuntu-20.04")] == [False]


def test_a_stand_in_that_nothing_stands_behind_is_added() -> None:
    found = release(artifact("tool")).with_standins([standin("gpu")])
    assert [a.name for a in found.artifacts_on("debian-12")] == ["tool", "gpu"]


def test_two_stand_ins_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="is there twice"):
        release(artifact("tool")).with_standins([standin("gpu"), standin("gpu")])


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "gpu_standin/../../x", "alone.py"])
def test_a_stand_ins_file_is_inside_the_folder_of_its_kind(path: str) -> None:
    for kind in ("local", "local-chart"):
        with pytest.raises(ValidationError, match="should match pattern"):
            standin("gpu", sources=[{"kind": kind, "path": path}])


def test_a_chart_has_its_own_folder_in_the_bundle_and_is_no_program() -> None:
    chart = standin("gpu")
    assert (chart.path, chart.executable) == ("charts/gpu.tgz", False)
    assert standin("tool", "binary").executable


def manifest_with_standin() -> BundleManifest:
    found = release(artifact("tool")).with_standins([standin("gpu")])
    ports = BuildPorts(FakeSources(), FakeStore(), FakeLock(), FakeObserver())
    return build_bundle(BuildRequest(found, "debian-12", "0", "now"), ports).manifest


def test_the_manifest_marks_stand_ins_and_nothing_else() -> None:
    manifest = manifest_with_standin()
    assert manifest.standins == ("chart gpu",)
    listed = {item["name"]: item for item in manifest.as_json()["artifacts"]}
    assert listed["gpu"]["standin"] is True
    assert "standin" not in listed["tool"]
    assert BundleManifest.parse(json.loads(json.dumps(manifest.as_json()))) == manifest


def test_show_says_what_is_a_stand_in(tmp_path: Any, capsys: Capture) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_with_standin().as_json()))
    assert run(["bundle", "show", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "STANDIN: chart gpu" in told
    assert "gpu (STANDIN)" in told
    assert "standins: chart gpu" in told


def test_every_shipped_stand_in_fits_the_release_and_its_files_are_there() -> None:
    plain = load_release("k8s-1.23.5-r1")
    found = load_release_with_standins("k8s-1.23.5-r1")
    standins = [item for item in found.artifacts if item.standin]
    assert not [item for item in plain.artifacts if item.standin]
    for item in standins:
        for source in item.sources:
            if isinstance(source, LocalSource):
                assert (STANDINS / source.path).is_file(), source.path
            if isinstance(source, LocalChartSource):
                assert (STANDINS / source.path / "Chart.yaml").is_file(), source.path
            if isinstance(source, GoSource):
                assert (STANDINS / source.module / "go.sum").is_file(), source.module
            if isinstance(source, CLibrarySource):
                assert (STANDINS / source.path).is_file(), source.path
                assert (STANDINS / source.module / "go.sum").is_file(), source.module
            if isinstance(source, GoFileSource):
                assert (STANDINS / source.module / "go.sum").is_file(), source.module
            ours = LocalSource | LocalChartSource | ComposeSource
            kinds = ours | GoSource | GoFileSource | CLibrarySource
            assert isinstance(source, kinds)


def test_no_release_names_a_file_of_the_stand_ins() -> None:
    sources = [s for item in load_release("k8s-1.23.5-r1").artifacts for s in item.sources]
    assert not [s for s in sources if isinstance(s, LocalSource | LocalChartSource)]


def test_status_names_the_stand_ins_of_the_mirrored_bundle(capsys: Capture) -> None:
    observed = Observed({}, NoCluster())
    show_status(site(), observed, bundle=manifest_with_standin())
    assert "stand-in: bundle: chart gpu" in capsys.readouterr().out
    found = status_as_json(site(), observed, Look({}), Plan((), ()), manifest_with_standin())
    assert found["bundle_standins"] == ["chart gpu"]


def test_the_vendors_own_program_counts_only_where_it_is_asked_for() -> None:
    for asked in (False, True):
        found = load_release_with_standins("k8s-1.23.5-r1", genuine=asked)
        for name in ("k8s-device-plugin", "gpu-feature-discovery", "node-feature-discovery"):
            (image,) = (item for item in found.artifacts if item.name == name)
            assert [is_genuine(source) for source in image.sources] == [True, False][not asked :]
        (chart,) = (a for a in found.artifacts if (a.kind, a.name) == ("chart", "gpu-operator"))
        assert [wants_genuine(source) for source in chart.sources] == [True, False][not asked :]


@pytest.mark.parametrize("works", [True, False])
def test_a_chart_that_deploys_real_programs_stays_a_stand_in_and_falls_back_with_them(
    works: bool,
) -> None:
    def item(name: str, kind: str, *sources: dict[str, Any]) -> Artifact:
        return Artifact.model_validate(
            {"name": name, "kind": kind, "version": "1", "sources": sources}
        )

    plain = {"kind": "local-chart", "path": "lab/chart"}
    rich = {**plain, "genuine": True, "files": {"crds/a.yaml": "objects"}, "needs": ["program"]}
    one_file = {"kind": "local", "path": "lab/objects.yaml"}
    go = {"kind": "go", "module": "m", "package": "p", "at": "v1"}
    standins = [
        item("chart", "chart", rich, plain),
        item("objects", "part", one_file),
        item("program", "part", go),
    ]
    found = release(artifact("tool")).with_standins(standins, genuine=True)
    taken = []

    class Failing(FakeSources):
        def fetch(self, artifact: Artifact, source: Any, inputs: Any) -> Any:
            if source.kind == "go" and not works:
                raise SourceUnavailable("found go1.22, expected Go 1.25 or later")
            if artifact.kind == "chart":
                taken.append((source.genuine, sorted(inputs)))
            return super().fetch(artifact, source, inputs)

    ports = BuildPorts(Failing(), FakeStore(), FakeLock(), FakeObserver())
    manifest = build_bundle(BuildRequest(found, "debian-12", "0", "now"), ports).manifest
    assert manifest.standins == ("chart chart",)
    assert taken == ([(True, ["objects", "program"])] if works else [(False, [])])
    assert played_all_the_same(manifest) == []


def test_a_chart_cannot_be_made_from_what_is_no_artifact() -> None:
    source = {"kind": "local-chart", "path": "lab/chart", "needs": ["program"]}
    chart = Artifact.model_validate(
        {"name": "chart", "kind": "chart", "version": "1", "sources": [source]}
    )
    with pytest.raises(ValidationError, match="chart chart is made from program, which is no"):
        release(artifact("tool")).with_standins([chart])


@pytest.mark.parametrize("works", [True, False])
def test_a_stand_in_that_has_the_vendors_program_is_none_and_a_fall_back_says_why(
    works: bool,
) -> None:
    real = {"kind": "compose", "genuine": True, "packages": ["real"]}
    played = {"kind": "compose", "packages": ["played"]}
    plugin = Artifact.model_validate(
        {"name": "plugin", "kind": "image", "version": "1", "image": "plugin:1",
         "sources": [real, played]}
    )  # fmt: skip
    found = release(artifact("tool")).with_standins([plugin], genuine=True)

    class Failing(FakeSources):
        def fetch(self, artifact: Artifact, source: Any, inputs: Any) -> Any:
            if source.kind == "compose" and source.genuine and not works:
                raise SourceUnavailable("found go1.17, expected Go 1.18 or later")
            return super().fetch(artifact, source, inputs)

    ports = BuildPorts(Failing(), FakeStore(), FakeLock(), FakeObserver())
    manifest = build_bundle(BuildRequest(found, "debian-12", "0", "now"), ports).manifest
    assert manifest.standins == (() if works else ("image plugin",))
    assert played_all_the_same(manifest) == (
        [] if works
        else ["image plugin is the stand-in: found go1.17, expected Go 1.18 or later"]
    )  # fmt: skip


@pytest.mark.parametrize("reached", [True, False])
def test_a_program_of_ours_is_marked_only_where_the_vendors_file_was_not_had(
    reached: bool,
) -> None:
    sources = FakeSources()
    if not reached:
        sources.break_source("crictl", "url")
    found = release(artifact("crictl", sources=[URL, {**GO, "standin": True, "version": "0.1"}]))
    ports = BuildPorts(sources, FakeStore(), FakeLock(), FakeObserver())
    manifest = build_bundle(BuildRequest(found, "debian-12", "0", "now"), ports).manifest
    assert manifest.standins == (() if reached else ("binary crictl",))
    (built,) = [item for item in manifest.artifacts if item.name == "crictl"]
    assert built.version == ("1.0" if reached else "0.1")
    # The same command makes it again: it is no stand-in that --standins brings.
    assert "--standins" not in build_command("/b", manifest)


def test_status_shows_the_bmc_of_a_container_as_a_stand_in() -> None:
    bare, (_, w1, w2) = site(), site().nodes
    address = IPv4Address("198.18.7.221")
    container = replace(w1, bmc_address=address, hardware="lab/container")
    server = replace(w2, bmc_address=address, hardware="quanta/d43n-3u")
    found = status_as_json(
        replace(bare, nodes=(container, server)), Observed({}, NoCluster()), Look({}), Plan((), ())
    )
    assert found["standins"] == {"w1": ["bmc"]}
