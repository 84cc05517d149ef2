"""Stand-ins taken from their folder: files, and charts that are the same bytes everywhere."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.local.cache import Cache
from appliance.builder.sources.local import LocalChart, LocalFile
from appliance.builder.sources.source import Context
from appliance.errors import BuildFailed, SourceUnavailable
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import LocalChartSource, LocalSource

FILE = LocalSource(kind="local", path="gpu_standin/plugin.py")
CHART = LocalChartSource(kind="local-chart", path="gpu_standin/chart")


def part() -> Artifact:
    return Artifact(name="plugin", kind="part", version="1", sources=(FILE,))


def chart(version: str = "v1.2.3") -> Artifact:
    return Artifact(name="gpu", kind="chart", version=version, sources=(CHART,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "plugin.py": "print()\n",
        "chart/Chart.yaml": "apiVersion: v2\nname: gpu\nversion: v1.2.3\n",
        "chart/values.yaml": "a: 1\n",
        "chart/templates/one.yaml": "kind: ConfigMap\n",
    }
    for name, content in files.items():
        path = tmp_path / "standins/gpu_standin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path / "standins"


def test_a_file_is_taken_as_a_part_of_an_image(context: Context, folder: Path) -> None:
    fetched = LocalFile().fetch(part(), FILE, replace(context, standins=folder))
    assert (fetched.kind, fetched.verified, fetched.ref) == (
        "local", "own", "standins/gpu_standin/plugin.py",
    )  # fmt: skip
    assert context.cache.path(fetched.file.sha256).read_text() == "print()\n"
    assert fetched.file.path == "parts/plugin"


def test_a_file_that_is_not_there_is_reported(context: Context, folder: Path) -> None:
    (folder / FILE.path).unlink()
    with pytest.raises(SourceUnavailable, match=r"plugin\.py is not a file"):
        LocalFile().fetch(part(), FILE, replace(context, standins=folder))


def test_stand_ins_are_not_taken_unless_they_are_asked_for(context: Context) -> None:
    with pytest.raises(SourceUnavailable, match="--standins"):
        LocalFile().fetch(part(), FILE, context)
    with pytest.raises(SourceUnavailable, match="--standins"):
        LocalChart().fetch(chart(), CHART, context)


def test_a_chart_is_packed_as_helm_wants_it(context: Context, folder: Path) -> None:
    fetched = LocalChart().fetch(chart(), CHART, replace(context, standins=folder))
    assert (fetched.file.path, fetched.file.executable) == ("charts/gpu.tgz", False)
    packed = context.cache.path(fetched.file.sha256).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        members = archive.getmembers()
    assert [m.name for m in members] == [
        "gpu/Chart.yaml", "gpu/templates/one.yaml", "gpu/values.yaml",
    ]  # fmt: skip
    assert {(m.uid, m.gid, m.mtime, m.mode) for m in members} == {(0, 0, 0, 0o644)}


def test_the_same_chart_is_the_same_bytes_in_any_cache_at_any_time(
    context: Context, folder: Path, tmp_path: Path
) -> None:
    one = LocalChart().fetch(chart(), CHART, replace(context, standins=folder))
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    other = replace(context, standins=folder, cache=Cache(tmp_path / "other"))
    assert LocalChart().fetch(chart(), CHART, other) == one
    (folder / "gpu_standin/chart/values.yaml").write_text("a: 2\n")
    assert LocalChart().fetch(chart(), CHART, other).file.sha256 != one.file.sha256


def test_a_chart_has_the_files_of_other_artifacts_and_not_those_that_it_only_needs(
    context: Context, folder: Path
) -> None:
    spec = CHART.model_copy(update={"files": {"crds/objects.yaml": "plugin"}, "needs": ("other",)})
    assert spec.inputs == ("plugin", "other")
    given = LocalFile().fetch(part(), FILE, replace(context, standins=folder))
    whole = replace(context, standins=folder, inputs={"plugin": given})
    fetched = LocalChart().fetch(chart(), spec, whole)
    packed = context.cache.path(fetched.file.sha256).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        stream = archive.extractfile("gpu/crds/objects.yaml")
        assert stream is not None
        assert stream.read() == b"print()\n"
        assert len(archive.getnames()) == 4


def test_a_chart_of_another_version_than_listed_is_refused(context: Context, folder: Path) -> None:
    with pytest.raises(BuildFailed, match=r"found gpu v1\.2\.3, expected gpu 2\.0"):
        LocalChart().fetch(chart("2.0"), CHART, replace(context, standins=folder))
    (folder / "gpu_standin/chart/Chart.yaml").unlink()
    with pytest.raises(SourceUnavailable, match=r"no Chart\.yaml"):
        LocalChart().fetch(chart(), CHART, replace(context, standins=folder))
