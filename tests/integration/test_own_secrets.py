"""The real helm says which values it would install with, and none of them is the vendor's after."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from appliance.model.components.runai.vendor_defaults import BACKEND
from tests.standins.test_vendor_bundle_standin import ADDRESS, ALWAYS, admin_cli
from tests.unit.modules.loading import load
from tests.unit.modules.test_own_secrets import OWN, ROWS

pytestmark = pytest.mark.bundle

own_secrets = load("own_secrets")
VERSIONS = {"2.6.2": ("--airgapped",), "2.8.2": ("--registry", "reg:5000")}


def packed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def test_a_packed_chart_inside_gives_its_values_and_its_templates_are_not_tried(
    bundle_directory: Path, tmp_path: Path
) -> None:
    inner = packed(
        {
            "sub/Chart.yaml": b"apiVersion: v2\nname: sub\nversion: 1.0.0\n",
            "sub/values.yaml": b"password: default\n",
            "sub/templates/a.yaml": b'{{ required "values: bm9uZQ==" .Values.nothing }}\n',
        }
    )
    files = {
        "top/Chart.yaml": b"apiVersion: v2\nname: top\nversion: 1.0.0\n"
        b"dependencies: [{name: sub, version: 1.0.0}]\n",
        "top/values.yaml": b"own: 1\n",
        "top/charts/sub-1.0.0.tgz": inner,
    }
    (tmp_path / "top.tgz").write_bytes(packed(files))
    want = {
        "helm": str(bundle_directory / "bin/helm"),
        "name": "top",
        "chart": str(tmp_path / "top.tgz"),
        "values_files": [],
    }
    found = own_secrets.would_be(want, load("helm_release").run)
    assert found["own"] == 1
    assert found["sub"]["password"] == "default"  # noqa: S105


@pytest.mark.parametrize("version", VERSIONS)
def test_the_defaults_of_the_chart_are_seen_and_replaced(
    bundle_directory: Path, tmp_path: Path, version: str
) -> None:
    cli = admin_cli(version, tmp_path)
    done = cli.run("generate-values", *ALWAYS, *ADDRESS, *VERSIONS[version], REGISTRY_URL="r:5000")
    assert done.returncode == 0, done.stderr
    (chart,) = cli.folder.glob("**/runai-backend-*.tgz")
    want: dict[str, Any] = {
        "helm": str(bundle_directory / "bin/helm"),
        "name": "runai-backend",
        "chart": str(chart),
        "values_files": [str(cli.folder / "runai-backend-values.yaml")],
    }
    run = load("helm_release").run
    before = own_secrets.would_be(want, run)
    assert own_secrets.in_force(before, ROWS) == [one.name for one in BACKEND]
    over, _ = own_secrets.overlay(before, ROWS, OWN, False)
    (tmp_path / "own.yaml").write_text(json.dumps(over))
    want["values_files"].append(str(tmp_path / "own.yaml"))
    after = own_secrets.would_be(want, run)
    assert own_secrets.in_force(after, ROWS) == []
